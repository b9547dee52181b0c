"""Codecs: bytes in, values out, and back. Multiformats, contract ABI, timestamps. No I/O."""
