"""The embedded pin store: every block of a DAG, fetched, verified and kept on this machine."""
