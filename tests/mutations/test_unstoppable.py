"""Unstoppable Domains: spoilt answers of a chain, with another chain behind it."""

import re
from contextlib import suppress
from typing import Final

import multiformats
import pytest

from content_gateway.net.http_client import Answer
from tests.fakes.unstoppable import PROXY_READER, Name, UnstoppableChain
from tests.mutations.cases import Case, run, share
from tests.mutations.contents import Unreadable, content_of
from tests.mutations.meanings import Heard
from tests.mutations.oracle import (
    Abi,
    Content,
    Mark,
    Refused,
    Said,
    TooLarge,
    Wallet,
    both_of,
    checksummed,
    returned,
)
from tests.mutations.rpc import spoil_rpc
from tests.mutations.standin import Role
from tests.mutations.test_ens import CID, KEY_NAME, OWNER, WALLET
from tests.mutations.world import World, judge, tells

pytestmark = pytest.mark.deep

# docs/facts/names.md, Unstoppable Domains, in the order in which they count.
WALLET_KEY: Final = "token.EVM.ETH.ETH.address"
OLD_WALLET_KEY: Final = "crypto.ETH.address"
CONTENT_KEY: Final = "dweb.ipfs.hash"
OLD_CONTENT_KEY: Final = "ipfs.html.value"
WALLETS: Final = 4
TEXTS: Final = WALLETS + 2
# Who holds a burned name, and Ethereum's half of one that moved: nobody's wallet.
NO_WALLETS: Final = (
    "0x000000000000000000000000000000000000dead",
    "0x932532aa4c0174b8453839a6e44ee09cc615f2b7",
)

NAMES: Final = {
    "full.crypto": Name(OWNER, {WALLET_KEY: WALLET, CONTENT_KEY: CID}),
    "old.crypto": Name(OWNER, {OLD_WALLET_KEY: WALLET.lower(), OLD_CONTENT_KEY: f"/ipfs/{CID}"}),
    "key.crypto": Name(OWNER, {WALLET_KEY: WALLET, CONTENT_KEY: f"ipns://{KEY_NAME}"}),
    "owned.crypto": Name(OWNER, {CONTENT_KEY: CID}),
    "odd.crypto": Name(OWNER, {CONTENT_KEY: "my holiday pictures"}),
}
TRUTHS: Final = {
    "full.crypto": Said(WALLET, ("ipfs", CID)),
    "old.crypto": Said(WALLET, ("ipfs", CID)),
    "key.crypto": Said(WALLET, ("ipns", KEY_NAME)),
    "owned.crypto": Said(OWNER, ("ipfs", CID), by_owner=True),
    "odd.crypto": Said(OWNER, ("unreadable", ""), by_owner=True),
    "absent.crypto": Said(),
}


@pytest.fixture
def world() -> World:
    """Polygon, which holds the names, and Ethereum, where one of them was once."""
    polygon, ethereum = UnstoppableChain(), UnstoppableChain()
    polygon.names |= NAMES
    ethereum.names["full.crypto"] = Name(NO_WALLETS[1], {CONTENT_KEY: CID})
    return World(
        {"polygon": polygon, "ethereum": ethereum},
        unstoppable__polygon_rpc_urls=["http://127.0.0.1:40001"],
        unstoppable__polygon_proxy_reader=PROXY_READER,
        unstoppable__ethereum_rpc_urls=["http://127.0.0.1:40002"],
        unstoppable__ethereum_proxy_reader=PROXY_READER,
    )


def meaning(heard: Heard) -> Said | Unreadable:
    """What the chains say, in their order: the first that holds the name has it."""
    for chain in ("polygon", "ethereum"):
        try:
            said = _on(chain, heard)
        except Unreadable as nothing:
            return nothing
        if said is not None:
            return said
    return Said()


def _on(chain: str, heard: Heard) -> Said | None:
    """What one chain holds, None for nothing."""
    try:
        owner, texts = _texts(heard, Role(chain, "getData"), TEXTS)
        wallet, content = _wallet_in(texts[:WALLETS]), _content_in(texts[WALLETS:])
    except TooLarge:  # then it is asked for wallet and content by themselves
        owner, wallet, content = b"", Mark.FAILED, Mark.FAILED
        with suppress(TooLarge):
            owner, texts = _texts(heard, Role(chain, f"getData {TEXTS - WALLETS}"), TEXTS - WALLETS)
            content = _content_in(texts)
        with suppress(TooLarge):
            owner, texts = _texts(heard, Role(chain, f"getData {WALLETS}"), WALLETS)
            wallet = _wallet_in(texts)
        if not owner:
            raise
    if not any(owner):
        return None
    if wallet is not Mark.ZERO or isinstance(content, Mark):
        return both_of(wallet, content)
    by_owner = "0x" + owner.hex() not in NO_WALLETS
    return both_of(checksummed(owner) if by_owner else Mark.NONE, content, by_owner=by_owner)


def _texts(heard: Heard, role: Role, count: int) -> tuple[bytes, list[bytes]]:
    answer = heard.get(role)
    if answer is None:
        raise Unreadable("it was never asked")
    try:
        data = Abi(returned(answer.status, answer.body))
    except Refused as refused:
        raise Unreadable("a ProxyReader that refuses") from refused
    data.address(0)
    texts = data.strings(64)
    if len(texts) != count:
        raise Unreadable("another number of records")
    return data.address(32), texts


def _wallet_in(texts: list[bytes]) -> Wallet:
    found = [_wallet(text) for text in texts if text]
    wallet = next(filter(None, found), None)
    return wallet or (Mark.FAILED if None in found else Mark.ZERO)


def _content_in(texts: list[bytes]) -> Content:
    return next((_content(text) for text in texts if text), Mark.NONE)


def _wallet(text: bytes) -> str | None:
    """The address, empty where it is zero, None where it is none."""
    if not re.fullmatch(rb"0x[0-9a-fA-F]{40}", text):
        return None
    address = bytes.fromhex(text[2:].decode())
    digits = text[2:].decode()
    if digits not in (digits.lower(), digits.upper()) and "0x" + digits != checksummed(address):
        return None
    return checksummed(address) if any(address) else ""


def _content(value: bytes) -> tuple[str, str]:
    """A CID or an IPNS key, bare, as a path or as a URI; whatever else is told as unreadable."""
    try:
        if len(value) > 2048:
            raise Unreadable("too long")
        text = value.decode()
        for prefix in ("ipns://", "/ipns/"):
            if text.startswith(prefix):
                return _ipns(text.removeprefix(prefix).removesuffix("/"))  # as browsers show it
        bare = text.removeprefix("ipfs://").removeprefix("/ipfs/")
        if re.fullmatch(r"Qm[1-9A-HJ-NP-Za-km-z]{44}", bare):
            found = content_of(b"\xe3\x01" + _plain("z" + bare))
        else:
            data = _plain(bare)
            if data[:2] == b"\x12\x20":
                raise Unreadable("version 0 in a multibase")
            found = content_of(b"\xe3\x01" + data)
        assert found is not None
        return found if found[0] in ("ipfs", "ipns") else _bare_key(bare)
    except (Unreadable, UnicodeDecodeError):
        return "unreadable", ""


def _bare_key(bare: str) -> tuple[str, str]:
    return ("unreadable", "") if "." in bare else _ipns(bare)


def _ipns(text: str) -> tuple[str, str]:
    if "." in text:
        domain = text.lower().encode("utf-8", "replace")
        identity = b"\x01\x70\x00" + bytes(multiformats.varint.encode(len(domain))) + domain
        found = content_of(b"\xe5\x01" + identity)
    elif text.startswith(("12D3Koo", "16Uiu2HA", "Qm")):
        found = content_of(b"\xe5\x01\x01\x72" + _plain("z" + text))
    else:
        data = _plain(text)
        if data[:2] != b"\x01\x72":  # a CID of something else is not a name
            raise Unreadable("no key")
        found = content_of(b"\xe5\x01" + data)
    assert found is not None
    return found


def _plain(text: str) -> bytes:
    """The bytes behind a multibase string, if it is the one spelling of them."""
    try:
        base = multiformats.multibase.get(code=text[:1])
        data = bytes(base.decode(text))
    except (ValueError, KeyError) as wrong:
        raise Unreadable("no multibase") from wrong
    if not data or base.encode(data) != text:
        raise Unreadable("not the one spelling")
    return data


@pytest.mark.parametrize("name", TRUTHS)
async def test_no_spoilt_answer_becomes_a_wrong_one(world: World, name: str) -> None:
    """Whichever chain's answer is spoilt: what the first chain that holds the name says, or an
    error; a chain that cannot be read is not one that holds nothing."""
    truth = TRUTHS[name]
    honest = await world.resolve(name)
    assert meaning(world.outbound.heard()) == truth
    assert honest.status == 404 if truth.is_absence else tells(honest, truth)

    async def one(case: Case) -> int:
        target = case.rng.choice(("polygon", "polygon", "polygon", "ethereum"))

        def spoil(role: Role, answer: Answer) -> Answer:
            return spoil_rpc(case, answer) if role.server == target else answer

        outcome = await world.resolve(name, spoil)
        return judge(case, outcome, meaning(world.outbound.heard()))

    tally = await run("unstoppable", name, share("unstoppable", of=6), one)
    tally.check(404 if truth.is_absence else 200, 502)
