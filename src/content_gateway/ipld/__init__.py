"""IPLD: what a block is, what it links to, and blocks in a CAR. Bytes in, values out."""
