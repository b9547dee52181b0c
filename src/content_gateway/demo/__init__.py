"""The demonstration: a site, an IPNS name and a zone of their own, without the internet."""
