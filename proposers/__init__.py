"""How to guess: one file a proposer, the contract in `base`, the names in `registry`."""
