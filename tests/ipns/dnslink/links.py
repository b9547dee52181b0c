"""What the tests of DNSLink have in common: one domain with one link."""

from datetime import timedelta

from content_gateway.ipns.sources.dnslink import DnsLink

IPFS = "/ipfs/bafybeibj6lixxzqtsb45ysdjnupvqkufgdvzqbnvmhw2kf7cfkesy7r7d4"
KEY = "/ipns/k51qzi5uqu5dihst24f3rp2ej4co9berxohfkxaenbq1wjty7nrd5e9xp4afx1"
NAME = "_dnslink.example.org"
LINK = DnsLink(IPFS, timedelta(minutes=5))
