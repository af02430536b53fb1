"""The settings: their values, what each may be, and the TOML file that holds them."""
