"""Codecs: bytes in, values out, and back. Multiformats, contract ABI, timestamps; no I/O and no
policy."""
