"""PostgreSQL: connections with deadlines, transactions, group commit, batched reads, migrations."""
