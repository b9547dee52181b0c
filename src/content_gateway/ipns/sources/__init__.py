"""Where IPNS records come from: HTTP, Kubo, DNSLink. None of them is believed here."""
