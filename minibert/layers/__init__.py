"""The layers, one file each: derivation, forward, backward, cache, class."""
