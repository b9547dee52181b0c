"""DNSLink: the records, the lookups, and every way of not finding out."""
