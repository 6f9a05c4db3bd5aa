"""``dcgmi``: what the node's DCGM host engine says of the devices; tables and words are those of DCGM 4."""
