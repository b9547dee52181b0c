"""Files on disk: those that operators write, who may read ours, how many are open."""
