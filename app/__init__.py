"""specchat: a terminal chat whose decoding is speculative and lossless."""
