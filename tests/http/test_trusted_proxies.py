"""Whom a request comes from: the peer, or whom trusted proxies name."""

import pytest

from content_gateway.http.trusted_proxies import MAX_PROXIES, TrustedProxies

PROXIES = TrustedProxies(["10.0.0.0/8", "2001:db8:ffff::1/128"])


def client(address: str, *fields: str) -> str:
    """The client of a request from *address* with these fields."""
    sent = [(b"x-forwarded-for", field.encode()) for field in fields]
    return PROXIES.client_of(address, [(b"host", b"a"), *sent])


@pytest.mark.parametrize("address", ["192.0.2.1", "2001:db8::1", "", "a socket"])
def test_of_others_no_word_is_believed(address: str) -> None:
    """Whatever they send, their requests are theirs."""
    assert client(address, "198.51.100.1") == address


def test_the_last_that_is_no_proxy_is_the_client() -> None:
    """Through one proxy or several; what stands before it anybody may have sent."""
    assert client("10.0.0.1", "198.51.100.1") == "198.51.100.1"
    assert client("10.0.0.1", "192.0.2.7, 198.51.100.1,10.0.0.2") == "198.51.100.1"
    assert client("10.0.0.1", "192.0.2.7", "2001:DB8::5, 10.0.0.2") == "2001:db8::5"
    assert client("2001:db8:ffff::1", "198.51.100.1") == "198.51.100.1"


def test_ipv4_in_the_form_of_ipv6_is_ipv4() -> None:
    """As a socket for both has it."""
    assert client("::ffff:10.0.0.1", "::ffff:198.51.100.1") == "198.51.100.1"


@pytest.mark.parametrize("field", ["", "unknown", "198.51.100.1, _hidden", "198.51.100.1:80", ","])
def test_a_proxy_that_names_nobody_is_the_client(field: str) -> None:
    """As the last that is known; what an entry before it says may be anybody's."""
    assert client("10.0.0.1", field) == "10.0.0.1"
    assert client("10.0.0.1") == "10.0.0.1"


def test_so_many_proxies_in_a_row_and_no_more() -> None:
    """Who names only proxies, and ever more of them, is one of them."""
    row = [f"10.0.0.{number}" for number in range(2 * MAX_PROXIES)]
    assert client("10.0.1.1", "198.51.100.1", *row) == f"10.0.0.{MAX_PROXIES}"
