"""Other pinning services: what their answers are read as."""
