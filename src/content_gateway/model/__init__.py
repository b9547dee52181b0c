"""The values of the domain: frozen, valid once parsed, without I/O."""
