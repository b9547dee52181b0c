"""What a domain points at: the services that know, and the directory that chooses among them."""
