"""Where IPNS records come from: HTTP routers and gateways, Kubo, DNSLink. None of them is
believed here."""
