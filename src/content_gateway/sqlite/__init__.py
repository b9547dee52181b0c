"""SQLite: connections, group commit, checkpoints, and whether the files are still the same ones."""
