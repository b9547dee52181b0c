"""The oracle is right about what is published, and what is wrong does not pass as right."""

import multiformats
import pytest
from eth_abi.abi import encode

from tests.mutations.cases import Case, Wrong, cases
from tests.mutations.contents import BASE36, BASE58, Unreadable, content_of, in_base
from tests.mutations.oracle import Abi, Refused, Said, checksummed, hex_bytes, returned
from tests.mutations.world import Outcome, judge

DIGEST = "29f2d17be6139079dc48696d1f582a8530eb9805b561eda517e22a892c7e3f1f"
CID = "bafybeibj6lixxzqtsb45ysdjnupvqkufgdvzqbnvmhw2kf7cfkesy7r7d4"


def test_a_case_can_be_run_again() -> None:
    """The same name throws the same dice."""
    one, again = (next(cases("ens", "both", 1)).rng.random() for _ in range(2))
    other = next(cases("ens", "wallet", 1)).rng.random()
    assert one == again != other


# docs/facts/names.md, contenthash.
@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("e30101701220" + DIGEST, ("ipfs", CID)),
        ("e3011220" + DIGEST, ("ipfs", CID)),
        ("e50101721220" + DIGEST, "k2k4r8kgnix5x0snul9112xdpqgiwc5xmvi8ja0szfhntep2d7qv8zz3"),
        (
            "e50101720024080112205cbd1cc86ac20d6640795809c2a185bb2504538a2de8076da5a6971b8acb4715",
            "k51qzi5uqu5dihst24f3rp2ej4co9berxohfkxaenbq1wjty7nrd5e9xp4afx1",
        ),
        ("e5010170000f6170702e756e69737761702e6f7267", "app.uniswap.org"),
        (
            "e40101fa011b20d1de9994b4d039f6548d191eb26786769f580809256b4685ef316805265ea162",
            ("swarm", "d1de9994b4d039f6548d191eb26786769f580809256b4685ef316805265ea162"),
        ),
        (
            "90b2ca05cacdf63edf2e0bb4eb5711dd38b0723aca5f3c4ab62ceeb7c1110740833d4894",
            ("arweave", "ys32Pt8uC7TrVxHdOLByOspfPEq2LO63wREHQIM9SJQ"),
        ),
        (
            "90b2c60508004007fd43b74149b31aacbbf2784e874d09b086bed15fd54cacff7120cce95372",
            ("skynet", "CABAB_1Dt0FJsxqsu_J4TodNCbCGvtFf1Uys_3EgzOlTcg"),
        ),
        ("bc037a716b746c776934666563766f367269", ("onion", "zqktlwi4fecvo6ri")),
        ("e30101701220" + DIGEST + "00", ("unreadable", "")),
        ("e301017012201234", ("unreadable", "")),
        ("", None),
    ],
)
def test_published_contenthashes_are_read(data: str, said: str | tuple[str, str] | None) -> None:
    """ENSIP-7's own examples; a name alone is one of IPNS."""
    expected = ("ipns", said) if isinstance(said, str) else said
    assert content_of(bytes.fromhex(data)) == expected


@pytest.mark.parametrize("data", [b"\0\0abc", b"\xff" * 40, b"\1"])
def test_bases_are_those_of_multiformats(data: bytes) -> None:
    """base36 and base58 as another implementation writes them."""
    assert "k" + in_base(data, BASE36) == multiformats.multibase.encode(data, "base36")
    assert "z" + in_base(data, BASE58) == multiformats.multibase.encode(data, "base58btc")


def test_abi_is_that_of_eth_abi() -> None:
    """Strings, lists and addresses are found where eth-abi puts them."""
    data = encode(["bytes", "address", "bytes[]"], [b"abc", "0x" + "5a" * 20, [b"", b"x" * 40]])
    assert Abi(data).string() == b"abc"
    assert Abi(data).address(32) == b"\x5a" * 20
    assert Abi(data).strings(64) == [b"", b"x" * 40]
    with pytest.raises(Unreadable):
        Abi(data[:-40]).strings(64)


def test_an_address_has_its_checksum() -> None:
    """EIP-55's own example."""
    text = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
    assert checksummed(bytes.fromhex(text[2:])) == text


@pytest.mark.parametrize("text", ["", "0X12", "12", "0x1", "0x12 34", "0x 12", "0x12\n", "0x١٢"])
def test_what_is_almost_hexadecimal_is_none(text: str) -> None:
    """0x and pairs of ASCII digits, nothing else."""
    with pytest.raises(Unreadable):
        hex_bytes(text)


def test_an_error_stands_for_itself() -> None:
    """A revert is a word of the contract; any other error says nothing, whatever else is there."""
    with pytest.raises(Refused, match="1234"):
        returned(200, b'{"error": {"data": {"data": "0x1234"}}, "result": "0x56"}')
    for error in (b'"no"', b"{}", b"7", b'{"code": 3, "data": "0x1"}'):
        with pytest.raises(Unreadable):
            returned(200, b'{"result": "0x56", "error": ' + error + b"}")
    assert returned(200, b'{"result": "0x56", "error": null}') == b"\x56"


@pytest.mark.parametrize(
    "outcome",
    [
        Outcome(500),
        Outcome(400),
        Outcome(404),
        Outcome(200, {"message": "Domain resolved"}),
        Outcome(200, {"message": "Domain resolved", "content": {"type": "ipfs", "cid": "b"}}),
    ],
)
def test_what_is_wrong_does_not_pass(outcome: Outcome) -> None:
    """Other statuses, absence of what is there, and answers that say something else."""
    case = next(cases("oracle", "wrong", 1))
    truth = Said(None, ("ipfs", CID))
    with pytest.raises(Wrong):
        judge(case, outcome, truth, Unreadable("nothing"))
    right = {"message": "Domain resolved", "content": {"type": "ipfs", "cid": CID}}
    assert judge(case, Outcome(200, right), truth) == 200
    assert isinstance(case, Case)
