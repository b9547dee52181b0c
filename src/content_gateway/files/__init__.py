"""Files on disk: those that operators write and we read again, who may read ours, how many are
open."""
