"""Real ENS contracts on a real node, at the addresses they have on mainnet.

Registry and public resolver are ENS's own compiled code; the Universal Resolver
and the odd characters of `contracts/` are ours, compiled when first needed. Puts
names on the chain; asking for them is what the tests are about."""

import asyncio
import hashlib
import json
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self, get_args

from eth_abi.abi import encode
from eth_utils.address import to_checksum_address

from tests.fakes.ethereum import keccak256, namehash, selector

from .ethereum import Anvil
from .peers import absent, require_peer

REGISTRY = "0x00000000000C2E074eC69A0dFb2997BA6C7d2e1e"
UNIVERSAL_RESOLVER = "0xeEeEEEeE14D718C2B47D9923Deab1335E144EeEe"
NAME_WRAPPER = "0xD4416b13d2b3a9aBae7AcD5D6C2BbDBE25686401"
NOBODY = "0x" + "00" * 20

# What a FailingResolver does with a record, in the contract's order.
Way = Literal["returns", "reverts", "invalid", "out of gas", "bare", "long"]
WAYS: tuple[Way, ...] = get_args(Way)

# Reads a standard JSON input on stdin, compiles it with npm's solc, writes its output.
COMPILE = """
const solc = require(process.argv[1]);
process.stdout.write(solc.compile(require("fs").readFileSync(0, "utf8")));
"""


def dns_wire(name: str) -> bytes:
    """*name* in DNS wire format, without compression."""
    labels = [label.encode() for label in name.split(".")]
    return b"".join(bytes([len(label)]) + label for label in labels) + b"\0"


def reverse_name(address: str, coin: int = 60) -> str:
    """The reverse name of an EVM address (ENSIP-19)."""
    chain = {60: "addr", 0x80000000: "default"}.get(coin, f"{coin:x}")
    return f"{address.lower()[2:]}.{chain}.reverse"


def calldata(signature: str, *arguments: Any) -> bytes:
    """A call of the function with this flat *signature*, such as `addr(bytes32)`."""
    types = signature[signature.index("(") + 1 : -1].split(",")
    return selector(signature) + encode([t for t in types if t], arguments)


class EnsWorld:
    """ENS on one node. Names are set up by their owners, whoever these are."""

    registry = REGISTRY
    universal_resolver = UNIVERSAL_RESOLVER

    def __init__(self, anvil: Anvil, public_resolver: str, contracts: dict[str, bytes]) -> None:
        self.public_resolver = public_resolver
        self._anvil = anvil
        self._contracts = contracts

    @classmethod
    async def deploy(cls, anvil: Anvil) -> Self:
        """Put the contracts on *anvil*'s chain; its first account owns the root."""
        world = await cls._with_registry(anvil)
        universal = world._contracts["UniversalResolver"] + encode(["address"], [REGISTRY])
        await _deploy(anvil, universal, at=UNIVERSAL_RESOLVER)
        await _deploy(anvil, world._contracts["NameWrapper"], at=NAME_WRAPPER)
        return world

    @classmethod
    async def _with_registry(cls, anvil: Anvil) -> Self:
        """The registry, where it is to be, and a public resolver of its names."""
        contracts = await _compiled()
        await _deploy(anvil, _truffle("@ensdomains/ens", "ENSRegistry"), at=cls.registry)
        # The constructor's one write, repeated: slot 0 maps the root node to its record.
        slot, owner = keccak256(bytes(64)), encode(["address"], [anvil.account])
        await anvil.rpc("anvil_setStorageAt", cls.registry, "0x" + slot.hex(), "0x" + owner.hex())
        resolver = _truffle("@ensdomains/resolver", "PublicResolver")
        resolver += encode(["address"], [cls.registry])
        return cls(anvil, await _deploy(anvil, resolver), contracts)

    @staticmethod
    def node_of(name: str) -> bytes:
        """The node of *name*; the root's where that is empty."""
        return namehash(name)

    async def name(
        self,
        name: str,
        *,
        address: str | None = None,
        contenthash: bytes | None = None,
        owner: str | None = None,
        texts: Mapping[str, str] | None = None,
        addresses: Mapping[int, bytes] | None = None,
        primary: str | None = None,
    ) -> None:
        """Let *name* exist, with these records in the public resolver and this owner at last.

        *primary* is the `name` record of a reverse name. None leaves a record as it is, unset for
        a new name; an owner of its own is the first account, unless its parent has another.
        """
        node = await self._node(name)
        await self.set_resolver(name, self.public_resolver)
        if address is not None:
            await self._record(node, calldata("setAddr(bytes32,address)", node, address))
        if contenthash is not None:
            await self._record(node, calldata("setContenthash(bytes32,bytes)", node, contenthash))
        for key, text in (texts or {}).items():
            await self._record(node, calldata("setText(bytes32,string,string)", node, key, text))
        for coin, raw in (addresses or {}).items():
            await self._record(node, calldata("setAddr(bytes32,uint256,bytes)", node, coin, raw))
        if primary is not None:
            await self._record(node, calldata("setName(bytes32,string)", node, primary))
        if owner is not None:
            await self._register(node, calldata("setOwner(bytes32,address)", node, owner))

    async def set_resolver(self, name: str, resolver: str) -> None:
        """Let *name* exist with whatever *resolver*: no contract, none at all (NOBODY) ..."""
        node = await self._node(name)
        await self._register(node, calldata("setResolver(bytes32,address)", node, resolver))

    async def wrap(self, name: str, owner: str) -> None:
        """Give *name* to the NameWrapper, which holds it for *owner*."""
        node = await self._node(name)
        number = int.from_bytes(node)
        await self._anvil.send(NAME_WRAPPER, calldata("wrap(uint256,address)", number, owner))
        await self._register(node, calldata("setOwner(bytes32,address)", node, NAME_WRAPPER))

    async def wildcard_resolver(self, address: str, contenthash: bytes = b"") -> str:
        """A new resolver that gives every subname these records (ENSIP-10)."""
        records = encode(["address", "bytes"], [address, contenthash])
        return await _deploy(self._anvil, self._contracts["WildcardResolver"] + records)

    async def offchain_resolver(self, *urls: str) -> str:
        """A new resolver that sends the caller to *urls* for every record (EIP-3668).

        A gateway answers with the ABI-encoded record.
        """
        return await self._offchain("OffchainResolver", urls)

    async def offchain_multicall_resolver(self, *urls: str) -> str:
        """A new resolver that sends the caller to *urls* once for all records (ENSIP-22).

        A gateway answers a multicall with the ABI-encoded `bytes[]` of the records.
        """
        return await self._offchain("OffchainMulticallResolver", urls)

    async def distrustful_resolver(self, *urls: str) -> str:
        """A new off-chain resolver whose callback refuses whatever a gateway answered."""
        return await self._offchain("DistrustfulResolver", urls)

    async def impostor_resolver(self, *urls: str, claimed: str) -> str:
        """A new off-chain resolver that says the lookup was *claimed*'s."""
        return await self._offchain("ImpostorResolver", urls, ("address", claimed))

    async def winding_resolver(self, *urls: str, lookups: int) -> str:
        """A new off-chain resolver that wants so many lookups in a row for one record."""
        return await self._offchain("WindingResolver", urls, ("uint256", lookups))

    async def _offchain(self, contract: str, urls: Sequence[str], *more: tuple[str, Any]) -> str:
        types, values = ["string[]", *(kind for kind, _ in more)], [urls, *(v for _, v in more)]
        return await _deploy(self._anvil, self._contracts[contract] + encode(types, values))

    async def address_only_resolver(self, address: str) -> str:
        """A new resolver that has no function `contenthash`."""
        record = encode(["address"], [address])
        return await _deploy(self._anvil, self._contracts["AddressOnlyResolver"] + record)

    async def failing_resolver(
        self,
        address: tuple[Way, bytes] = ("returns", bytes(32)),
        contenthash: tuple[Way, bytes] = ("returns", encode(["bytes"], [b""])),
        *,
        extended: bool = False,
    ) -> str:
        """A new resolver that does with each record as it is told, for every name.

        The bytes are what it returns, or reverts with, or (`long`) as a uint256 how much it
        returns. An *extended* one (ENSIP-10) stands for all names below the one it is set on, too.
        """
        kinds = ["bool", "(uint8,bytes)", "(uint8,bytes)"]
        records = [(WAYS.index(way), data) for way, data in (address, contenthash)]
        code = self._contracts["FailingResolver"] + encode(kinds, [extended, *records])
        return await _deploy(self._anvil, code)

    async def fname_resolver(self, *urls: str) -> str:
        """A new resolver like Farcaster's: *urls* have the address, all else is not supported.

        A gateway answers `addr(bytes32)` with the ABI-encoded record.
        """
        return await self._offchain("FnameResolver", urls)

    async def offchain_dns_resolver(self, *urls: str) -> str:
        """A new resolver like that of an ending of DNS, with ENS's ExtendedDNSResolver behind it.

        A gateway answers `resolve(bytes,uint16)` (DNS wire name, 16) with the ABI-encoded
        `string[]` of the name's TXT records, such as `ENS1 dnsname.ens.eth 0x...`.
        """
        return await self._offchain("OffchainDNSResolver", urls)

    async def particular_resolver(self, address: str, primary: str = "") -> str:
        """A new resolver that tells the Universal Resolver alone what it has."""
        records = encode(["address", "address", "string"], [UNIVERSAL_RESOLVER, address, primary])
        return await _deploy(self._anvil, self._contracts["ParticularResolver"] + records)

    async def old_universal_resolver(self) -> str:
        """A new Universal Resolver of the days before ENSIP-23."""
        return await _deploy(self._anvil, self._contracts["OldUniversalResolver"])

    async def _owner(self, node: bytes) -> str:
        answer = await self._anvil.call(self.registry, calldata("owner(bytes32)", node))
        return to_checksum_address("0x" + answer[12:].hex())

    async def _node(self, name: str) -> bytes:
        """The node of *name*, created with its ancestors where they are missing."""
        node = self.node_of(name)
        if name and await self._owner(node) == NOBODY:
            label, _, rest = name.partition(".")
            parent = await self._node(rest)
            owner, label_hash = await self._owner(parent), keccak256(label.encode())
            signature = "setSubnodeOwner(bytes32,bytes32,address)"
            await self._register(parent, calldata(signature, parent, label_hash, owner))
        return node

    async def _register(self, node: bytes, data: bytes) -> None:
        await self._anvil.send(self.registry, data, sender=await self._owner(node))

    async def _record(self, node: bytes, data: bytes) -> None:
        await self._anvil.send(self.public_resolver, data, sender=await self._owner(node))


async def _deploy(anvil: Anvil, code: bytes, *, at: str | None = None) -> str:
    """Create a contract; with *at*, put a copy of its code (not its storage) there."""
    created = (await anvil.send(None, code))["contractAddress"]
    if at is None:
        return to_checksum_address(created)
    await anvil.rpc("anvil_setCode", at, await anvil.rpc("eth_getCode", created, "latest"))
    return at


def _truffle(package: str, contract: str) -> bytes:
    """The creation code of *contract* as its authors compiled it."""
    build = require_peer(package) / "build" / "contracts" / f"{contract}.json"
    return bytes.fromhex(json.loads(build.read_text())["bytecode"][2:])


async def _compiled() -> dict[str, bytes]:
    """Creation code of everything in `contracts/`; kept beside the compiler between runs."""
    solc = require_peer("solc")
    sources = sorted((Path(__file__).parent / "contracts").glob("*.sol"))
    task = json.dumps(
        {
            "language": "Solidity",
            "sources": {path.name: {"content": path.read_text()} for path in sources},
            "settings": {
                "evmVersion": "cancun",
                "optimizer": {"enabled": True},
                "outputSelection": {"*": {"*": ["evm.bytecode.object"]}},
            },
        }
    )
    version = (solc / "package.json").read_bytes()
    key = hashlib.sha256(version + task.encode()).hexdigest()[:16]
    kept = solc.parent.parent / f"contracts-{key}.json"
    if not kept.exists():
        await asyncio.to_thread(_compile, solc, task, kept)
    output = json.loads(kept.read_text())
    return {
        name: bytes.fromhex(contract["evm"]["bytecode"]["object"])
        for file in output["contracts"].values()
        for name, contract in file.items()
    }


def _compile(solc: Path, task: str, output: Path) -> None:
    node = shutil.which("node") or absent("node is not installed: the Solidity compiler needs it")
    command = [node, "-e", COMPILE, str(solc)]
    done = subprocess.run(command, input=task.encode(), capture_output=True, check=True)
    errors = [e for e in json.loads(done.stdout).get("errors", []) if e["severity"] == "error"]
    if errors:
        raise RuntimeError("\n".join(e["formattedMessage"] for e in errors))
    with tempfile.NamedTemporaryFile(dir=output.parent, delete=False) as file:
        file.write(done.stdout)
    Path(file.name).replace(output)
