"""Multiaddrs: what a node can be reached by, taken strictly, and what an address says."""

from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from content_gateway.model.multiaddr import Multiaddr

ED = "12D3KooWDpJ7As7BWAwRMfu1VU2WCqNjvq387JEYKDBj4kx6nXTN"
RSA = "QmNnooDu7bfjPFoTZYxMNLWUQJyrVwtbZg5gBMjTezGAJN"
KEY = "k51qzi5uqu5dihst24f3rp2ej4co9berxohfkxaenbq1wjty7nrd5e9xp4afx1"
HASH = "uEiDikp5KVUgkLta1EjUN-IKbHk-dUBg8VzKgf5nXxLK46w"  # of Kubo's own WebTransport

# As Kubo 0.42 and IPFS Cluster 1.1.6 print and take them.
GOOD = [
    f"/ip4/203.0.113.7/tcp/4001/p2p/{ED}",
    f"/ip4/8.8.8.8/tcp/4001/ipfs/{RSA}",
    f"/ip6/2606:4700::1111/udp/4001/quic-v1/p2p/{KEY}",
    f"/ip4/8.8.8.8/udp/4001/quic-v1/webtransport/certhash/{HASH}/certhash/{HASH}/p2p/{ED}",
    f"/ip4/8.8.8.8/udp/4001/webrtc-direct/certhash/{HASH}/p2p/{ED}",
    f"/dns4/node.example.com/tcp/443/wss/p2p/{ED}",
    f"/ip4/8.8.8.8/tcp/4001/tls/sni/8-8-8-8.{KEY}.libp2p.direct/ws/p2p/{ED}",
    f"/dnsaddr/bootstrap.libp2p.io/p2p/{RSA}",
    "/dnsaddr/bootstrap.libp2p.io",
    f"/ip4/8.8.8.8/tcp/4001/p2p/{RSA}/p2p-circuit/p2p/{ED}",
    "/dns4/gateway.example.com/tcp/443/https",
    "/dns/gateway.example.com/tcp/443/tls/http",
    "/dns/gateway.example.com/tcp/8443/tls/sni/gateway.example.com/http/http-path/a%2Fb",
    "/ip4/8.8.8.8/tcp/80/http",
    f"/ip4/8.8.8.8/tcp/80/http/p2p/{ED}",
    "/ip4/127.0.0.1/tcp/1",
    "/dns4/localhost/tcp/4001",
]
BAD = [
    *("", "/", "//", "a", "ip4/8.8.8.8/tcp/1", "no multiaddr", "/x", "/ip4", "/ip4/", "/tcp/1"),
    *("/ip4/8.8.8.8", "/ip4/8.8.8.8/", "/ip4/8.8.8.8/tcp", "/ip4/8.8.8.8/tcp/", "/8.8.8.8/tcp/1"),
    *("/ip4/8.8.8/tcp/1", "/ip4/8.8.8.08/tcp/1", "/ip4/2130706433/tcp/1", "/ip4/0x7f.1/tcp/1"),
    *("/ip4/::1/tcp/1", "/ip6/8.8.8.8/tcp/1", "/ip6/fe80::1%eth0/tcp/1", "/ip6/[::1]/tcp/1"),
    *("/ip6zone/eth0/ip6/fe80::1/tcp/1", "/ip4/8.8.8.8/ipcidr/8", "/unix/tmp/socket"),
    *("/onion3/" + "a" * 56 + ":80", "/memory/1", "/garlic64/x", "/ip4/8.8.8.8/sctp/1"),
    *("/ip4/8.8.8.8/tcp/0", "/ip4/8.8.8.8/tcp/65536", "/ip4/8.8.8.8/tcp/-1", "/ip4/8.8.8.8/tcp/1a"),
    *("/ip4/8.8.8.8/tcp/٣", "/ip4/8.8.8.8/tcp/ 1", "/ip4/8.8.8.8/tcp/1/", "/ip4/8.8.8.8/tcp/01"),
    *("/ip4/8.8.8.8/tcp/1/tcp/2", "/ip4/8.8.8.8/tcp/1/ip4/127.0.0.1/tcp/2", "/ip4/8.8.8.8/http"),
    *("/dns4//tcp/1", "/dns4/-/tcp/1", "/dns4/a b/tcp/1", "/dns4/a,b/tcp/1", "/dns4/a?b/tcp/1"),
    *("/dns4/a@b/tcp/1", "/dns4/a:1/tcp/1", "/dns4/a%2fb/tcp/1", "/dns4/" + "a" * 254 + "/tcp/1"),
    *("/ip4/8.8.8.8/tcp/1/p2p", "/ip4/8.8.8.8/tcp/1/p2p/", "/ip4/8.8.8.8/tcp/1/p2p/x"),
    f"/ip4/8.8.8.8/tcp/1/p2p/{ED[:-1]}",
    f"/ip4/8.8.8.8/tcp/1/p2p/{RSA}a",
    "/ip4/8.8.8.8/tcp/1/p2p/example.com",
    "/ip4/8.8.8.8/tcp/1/p2p/bafybeibj6lixxzqtsb45ysdjnupvqkufgdvzqbnvmhw2kf7cfkesy7r7d4",
    f"/ip4/8.8.8.8/tcp/1/p2p/{ED}/ws",
    f"/ip4/8.8.8.8/tcp/1/p2p/{ED}/p2p/{ED}",
    f"/ip4/8.8.8.8/tcp/1/p2p/{ED}/p2p-circuit",
    f"/ip4/8.8.8.8/tcp/1/p2p-circuit/p2p/{ED}",
    f"/ip4/8.8.8.8/tcp/1/p2p/{ED}/p2p-circuit/ip4/127.0.0.1/tcp/1/p2p/{ED}",
    f"/p2p/{ED}",
    "/ip4/8.8.8.8/tcp/1/ws" + "/ws" * 20,
    "/ip4/8.8.8.8/udp/1/webtransport/certhash/x",
    "/ip4/8.8.8.8/tcp/80/http/http-path/",
    "/ip4/8.8.8.8/tcp/80/http/http-path/a,b",
    "/ip4/8.8.8.8/tcp/80/http/http-path/%zz",
    "/dns4/" + "a." * 500 + "example/tcp/1",
    "/ip4/8.8.8.8/tcp/1\n",
]


@pytest.mark.parametrize("text", GOOD)
def test_what_nodes_print_is_taken(text: str) -> None:
    """And kept as it was spelt."""
    assert str(Multiaddr.parse(text)) == text


@pytest.mark.parametrize("text", BAD)
def test_what_is_no_address_of_a_node_is_refused(text: str) -> None:
    """With what is wrong about it; a cluster would refuse it, and pin all the same."""
    with pytest.raises(ValueError, match=r"\w"):
        Multiaddr.parse(text)


@given(st.lists(st.sampled_from([part for text in GOOD for part in text.split("/")]) | st.text()))
def test_no_text_is_too_odd(words: list[str]) -> None:
    """It is taken or refused, and what was taken says where it leads."""
    text = "/" + "/".join(words)
    try:
        address = Multiaddr.parse(text)
    except ValueError:
        return
    assert address.text == text
    assert isinstance(address.is_public, bool)
    assert "," not in text
    assert address.key == Multiaddr.parse(address.text).key


PRIVATE = [
    *(
        "/ip4/127.0.0.1/tcp/1",
        "/ip4/10.0.0.1/tcp/1",
        "/ip4/192.168.1.1/tcp/1",
        "/ip4/0.0.0.0/tcp/1",
    ),
    *("/ip4/169.254.169.254/tcp/80/http", "/ip4/100.64.0.1/tcp/1", "/ip4/192.0.2.7/tcp/1"),
    *("/ip4/224.0.0.1/tcp/1", "/ip4/255.255.255.255/tcp/1", "/ip6/::1/tcp/1", "/ip6/::/tcp/1"),
    *("/ip6/::ffff:127.0.0.1/tcp/1", "/ip6/64:ff9b::7f00:1/tcp/1", "/ip6/2002:7f00:1::/tcp/1"),
    *("/ip6/fe80::1/tcp/1", "/ip6/fc00::1/tcp/1", "/ip6/ff02::1/tcp/1", "/ip6/2001:db8::1/tcp/1"),
    *("/dns4/localhost/tcp/1", "/dns/LOCALHOST/tcp/1", "/dns4/a.localhost/tcp/1"),
    *("/dns4/router/tcp/1", "/dns4/printer.local/tcp/1", "/dns4/kubo.internal/tcp/1"),
    *("/dns4/nas.home.arpa/tcp/1", "/dns4/127.1/tcp/1", "/dns4/0x7f.0.0.1/tcp/1"),
    *("/dns4/2130706433/tcp/1", "/dns4/127.0.0.1/tcp/1", "/dns4/example.com./tcp/1"),
    *("/dnsaddr/localhost", f"/ip4/127.0.0.1/tcp/1/p2p/{RSA}/p2p-circuit/p2p/{ED}"),
]


@pytest.mark.parametrize("text", PRIVATE)
def test_hosts_outside_of_the_internet_are_known(text: str) -> None:
    """Addresses by the guard's rule, names by what is never looked up in public."""
    assert not Multiaddr.parse(text).is_public


@pytest.mark.parametrize("text", GOOD[1:-2])
def test_hosts_of_the_internet_are_known(text: str) -> None:
    """The relay's, where there is one."""
    assert Multiaddr.parse(text).is_public


def test_an_address_says_where_it_leads() -> None:
    """Host, peer and URL."""
    node = Multiaddr.parse(GOOD[0])
    assert (node.host, node.peer_id, node.gateway_url) == (IPv4Address("203.0.113.7"), ED, None)
    assert Multiaddr.parse(GOOD[2]).host == IPv6Address("2606:4700::1111")
    assert Multiaddr.parse(GOOD[5]).host == "node.example.com"
    assert Multiaddr.parse(GOOD[9]).peer_id == ED
    assert Multiaddr.parse("/dnsaddr/example.com").peer_id is None


URLS = {
    "/dns4/gateway.example.com/tcp/443/https": "https://gateway.example.com:443",
    "/dns/gateway.example.com/tcp/8443/tls/http": "https://gateway.example.com:8443",
    "/dns/a.example/tcp/1443/tls/sni/b.example/http": "https://a.example:1443",
    "/ip4/8.8.8.8/tcp/80/http": "http://8.8.8.8:80",
    "/ip6/2606:4700::1111/tcp/80/http": "http://[2606:4700::1111]:80",
    f"/ip4/8.8.8.8/tcp/80/http/p2p/{ED}": "http://8.8.8.8:80",
    "/ip4/8.8.8.8/tcp/80/http/http-path/a%2Fb%3Fc%0D": "http://8.8.8.8:80/a/b%3Fc%0D",
    "/ip4/8.8.8.8/udp/80/http": None,
    "/ip4/8.8.8.8/tcp/80/ws": None,
    "/ip4/8.8.8.8/tcp/80": None,
    "/dnsaddr/example.com": None,
}


@pytest.mark.parametrize("text", URLS)
def test_the_url_of_an_http_gateway(text: str) -> None:
    """Plain HTTP and HTTPS, in both spellings; nothing else is one."""
    assert Multiaddr.parse(text).gateway_url == URLS[text]


def test_spellings_of_one_address_have_one_key() -> None:
    """As go-multiaddr spells each in its own way."""
    named = Multiaddr.parse(f"/ip6/2606:4700:0:0:0:0:0:1111/tcp/1/ipfs/{ED}")
    assert named.key == Multiaddr.parse(f"/ip6/2606:4700::1111/tcp/1/p2p/{ED}").key
    assert named.key != Multiaddr.parse(f"/ip6/2606:4700::1111/tcp/2/p2p/{ED}").key
