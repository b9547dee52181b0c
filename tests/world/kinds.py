"""Names of every kind on one chain: what owners, resolvers and gateways do out there.

Puts them there and says what each is called. What a client makes of them is for the tests to
say; a name's kind stands in its first label."""

from contextlib import AsyncExitStack
from dataclasses import dataclass, field

from eth_abi.abi import encode

from tests.fakes.ethereum import namehash
from tests.fakes.gateway import Gateway, running_gateway

from .ens import NOBODY, EnsWorld, Way, calldata, dns_wire
from .ethereum import Anvil

WALLET = "0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045"
STRANGER = "0x5B38Da6a701c568545dCfcB03FcB875f56beddC4"  # an account without code
ETHEREUM, BASE, BITCOIN = 60, 0x80000000 | 8453, 0
IPFS = bytes.fromhex("e3010170122029f2d17be6139079dc48696d1f582a8530eb9805b561eda517e22a892c7e3f1f")

# docs/facts/names.md, contenthash: ENSIP-7, and what occurs in practice.
CONTENTHASHES = {
    "ipfs": IPFS,
    "ipfs-raw": bytes.fromhex("e30101551220" + "29" * 32),
    "ipfs-of-key": bytes.fromhex("e3010172002408011220" + "5c" * 32),
    "ipns-sha": bytes.fromhex("e50101721220" + IPFS[6:].hex()),
    "ipns-key": bytes.fromhex("e5010172002408011220" + "5c" * 32),
    "dnslink": bytes.fromhex("e5010170000f6170702e756e69737761702e6f7267"),
    "dnslink-of-key": bytes.fromhex("e5010172000f6170702e756e69737761702e6f7267"),
    "swarm": bytes.fromhex("e40101fa011b20" + "d1" * 32),
    "arweave": bytes.fromhex("90b2ca05" + "ca" * 32),
    "skynet": bytes.fromhex(
        "90b2c60508004007fd43b74149b31aacbbf2784e874d09b086bed15fd54cacff7120cce95372"
    ),
    "onion": bytes.fromhex("bc037a716b746c776934666563766f367269"),
    "garbage": bytes.fromhex("deadbeef"),
    "ipfs-cut": IPFS[:-4],
}
_ADDRESS = encode(["address"], [WALLET])
_CONTENT = encode(["bytes"], [IPFS])
_UNSET = encode(["bytes"], [b""])
_NOT_TODAY = bytes.fromhex("08c379a0") + encode(["string"], ["not today"])
FAILURES: dict[str, tuple[Way, bytes]] = {
    "error-string": ("reverts", _NOT_TODAY),
    "unsupported": (
        "reverts",
        bytes.fromhex("7b1c461b") + encode(["bytes4"], [b"\xbc\x1c\x58\xd1"]),
    ),
    "not-implemented": ("reverts", bytes.fromhex("d6234725")),
    "invalid": ("invalid", b""),
    "bare": ("bare", b""),
    "out-of-gas": ("out of gas", b""),
}
SPELLINGS = (
    *("PLAIN.eth", "plain.ETH", "Ｐlain.eth", "🦄.eth", "❤️.eth", "❤.eth", "faß.eth", "ünïcode.eth"),
    *("_dmarc.eth", "pl ain.eth", "plain_.eth", "pl\u200dain.eth", "xn--ls8h.eth", "раураl.eth"),
    *("sub.plain.eth", "none.eth", "none.com", "deep.er.wild.eth", "any.wild.eth", "wild.eth"),
    *("f" * 250 + ".eth", "f" * 255 + ".eth", "f" * 256 + ".eth", ".".join("abcdefgh") + ".eth"),
    *(".".join(["f" * 200] * 4) + ".eth", "a..eth", "\0.eth"),
)


@dataclass
class Kinds:
    """The questions that there are, as name and coin type, and where the gateways listen."""

    questions: list[tuple[str, int]] = field(default_factory=list)
    gateways: list[str] = field(default_factory=list)


class Furnisher:
    """Puts names on the chain of *ens*; gateways live as long as *stack*."""

    def __init__(self, anvil: Anvil, ens: EnsWorld, stack: AsyncExitStack) -> None:
        self.kinds = Kinds()
        self._anvil, self._ens, self._stack = anvil, ens, stack

    async def all(self) -> Kinds:
        """Every kind of name."""
        await self._on_chain()
        await self._spellings()
        await self._failing()
        await self._off_chain()
        await self._dns()
        return self.kinds

    def _ask(self, name: str, coin: int = ETHEREUM) -> str:
        self.kinds.questions.append((name, coin))
        return name

    async def _on_chain(self) -> None:
        ens, ask = self._ens, self._ask
        await ens.name(ask("plain.eth"), address=WALLET, contenthash=IPFS)
        await ens.name(ask("address-only.eth"), address=WALLET)
        await ens.name(ask("empty.eth"))
        await ens.name(ask("zero.eth"), address=NOBODY)
        await ens.name(ask("zero-with-content.eth"), address=NOBODY, contenthash=IPFS)
        await ens.set_resolver(ask("no-resolver.eth"), NOBODY)
        await ens.set_resolver(ask("no-contract.eth"), STRANGER)
        await ens.set_resolver(ask("old.eth"), await ens.address_only_resolver(WALLET))
        for kind, contenthash in CONTENTHASHES.items():
            await ens.name(ask(f"content-{kind}.eth"), address=WALLET, contenthash=contenthash)
        node = namehash("plain.eth")
        script = bytes.fromhex("76a914" + "62" * 20 + "88ac")  # pay to public key hash
        for coin, raw in ((BASE, bytes.fromhex(STRANGER[2:])), (BITCOIN, script)):
            call = calldata("setAddr(bytes32,uint256,bytes)", node, coin, raw)
            await self._anvil.send(ens.public_resolver, call)
        for coin in (BASE, BITCOIN, 0x80000000 | 10):
            ask("plain.eth", coin)
        ask("none.eth", BASE)

    async def _spellings(self) -> None:
        ens = self._ens
        for name in ("🦄.eth", "❤.eth", "faß.eth", "ünïcode.eth", "_dmarc.eth", "f" * 250 + ".eth"):
            await ens.name(name, address=WALLET)
        await ens.name("f" * 255 + ".eth", address=WALLET)
        await ens.name(".".join(["f" * 200] * 4) + ".eth", address=WALLET)
        await ens.name(".".join("abcdefgh") + ".eth", address=WALLET)
        await ens.set_resolver("wild.eth", await ens.wildcard_resolver(WALLET, IPFS))
        for name in SPELLINGS:
            self._ask(name)

    async def _failing(self) -> None:
        ens, ask = self._ens, self._ask
        good: tuple[tuple[Way, bytes], tuple[Way, bytes]] = (
            ("returns", _ADDRESS),
            ("returns", _CONTENT),
        )
        for kind, failure in FAILURES.items():
            for extended in (False, True):
                of = "wildcard-" if extended else ""
                resolver = await ens.failing_resolver(failure, good[1], extended=extended)
                await ens.set_resolver(ask(f"{of}address-{kind}.eth"), resolver)
                resolver = await ens.failing_resolver(good[0], failure, extended=extended)
                await ens.set_resolver(ask(f"{of}contenthash-{kind}.eth"), resolver)
        both = await ens.failing_resolver(FAILURES["error-string"], FAILURES["error-string"])
        await ens.set_resolver(ask("both-error-string.eth"), both)

    async def _gateway(self) -> Gateway:
        gateway = await self._stack.enter_async_context(running_gateway())
        self.kinds.gateways.append(gateway.url)
        return gateway

    def _hold(self, gateway: Gateway, name: str, *, padding: int = 0) -> None:
        node = namehash(name)
        gateway.answers[calldata("addr(bytes32)", node)] = _ADDRESS + bytes(padding)
        gateway.answers[calldata("contenthash(bytes32)", node)] = _CONTENT + bytes(padding)

    async def _off_chain(self) -> None:
        ens, ask = self._ens, self._ask
        well, refusing, failing, late = [await self._gateway() for _ in range(4)]
        packed, other = await self._gateway(), await self._gateway()
        packed.is_compressing = True
        refusing.misbehave("404")
        failing.misbehave("500")
        late.misbehave("504")
        late.delay = 5.0
        urls = {
            "get": (well.by_get,),
            "post": (well.by_post,),
            "refused": (refusing.by_get, well.by_get),
            "failing": (failing.by_get,),
            "second": (failing.by_get, well.by_get),
            "fifth": (*[failing.by_get] * 4, well.by_get),
            "gzip": (packed.by_get,),
            "hanging": (late.by_get,),
            "unknown": (other.by_get,),
            "nobody": (),
        }
        for kind, where in urls.items():
            name = ask(f"offchain-{kind}.eth")
            self._hold(well, name)
            self._hold(packed, name)
            await ens.set_resolver(name, await ens.offchain_resolver(*where))
        self._hold(well, ask("offchain-proof.eth"), padding=40_992)  # 82 KB in hexadecimal
        await ens.set_resolver("offchain-proof.eth", await ens.offchain_resolver(well.by_get))
        self._hold(packed, ask("offchain-large.eth"), padding=200_000)
        await ens.set_resolver("offchain-large.eth", await ens.offchain_resolver(packed.by_get))
        self._hold(well, ask("offchain-uneven.eth"), padding=7)  # no whole number of words
        await ens.set_resolver("offchain-uneven.eth", await ens.offchain_resolver(well.by_get))
        # A gateway that has one record and refuses the other.
        node = namehash(ask("offchain-half.eth"))
        well.answers[calldata("addr(bytes32)", node)] = _ADDRESS
        await ens.set_resolver("offchain-half.eth", await ens.offchain_resolver(well.by_get))
        self._hold(well, ask("below.offchain-wild.eth"))
        await ens.set_resolver("offchain-wild.eth", await ens.offchain_resolver(well.by_get))
        self._hold(well, ask("offchain-multicall.eth"))
        await ens.set_resolver(
            "offchain-multicall.eth", await ens.offchain_multicall_resolver(well.by_get)
        )
        self._hold(well, ask("distrustful.eth"))
        await ens.set_resolver("distrustful.eth", await ens.distrustful_resolver(well.by_get))
        self._hold(well, ask("impostor.eth"))
        impostor = await ens.impostor_resolver(well.by_get, claimed=STRANGER)
        await ens.set_resolver("impostor.eth", impostor)
        for lookups in (0, 2, 6):
            self._hold(well, ask(f"winding-{lookups}.eth"))
            winding = await ens.winding_resolver(well.by_get, lookups=lookups)
            await ens.set_resolver(f"winding-{lookups}.eth", winding)
        self._hold(well, ask("farcaster.eth"))
        await ens.set_resolver("farcaster.eth", await ens.fname_resolver(well.by_get))

    async def _dns(self) -> None:
        gateway = await self._gateway()
        texts = {
            "text-address.com": [f"ENS1 dnsname.ens.eth {WALLET}"],
            "text-of-coin.com": [f"ENS1 2.dnsname.ens.eth a[60]={WALLET}"],
            "text-none.com": [],
            "text-other.com": ["v=spf1 -all"],
            "text-wrong.com": ["ENS1 dnsname.ens.eth garbage"],
        }
        for name, records in texts.items():
            question = calldata("resolve(bytes,uint16)", dns_wire(self._ask(name)), 16)
            gateway.answers[question] = encode(["string[]"], [records])
        await self._ens.set_resolver("com", await self._ens.offchain_dns_resolver(gateway.by_get))
