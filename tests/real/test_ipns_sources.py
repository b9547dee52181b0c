"""IPNS from a real Kubo that publishes: its RPC API, its gateway and its routing API.

The node is online, as `routing/get` demands, but has no peers and no way to find any."""

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlencode

import aiohttp
import pytest

from content_gateway.errors import InvalidUpstreamResponse, UpstreamUnavailable
from content_gateway.ipns.record import verify
from content_gateway.ipns.sources.http import HttpSource
from content_gateway.ipns.sources.kubo import KuboSource
from content_gateway.model.ipns_name import IpnsName
from content_gateway.net.http_client import HttpClient
from tests.ipns.signing import CURVES, PATH, EcSigner, RsaSigner, Signer, data, field, when
from tests.world.kubo import Kubo, running_kubo
from tests.world.peers import Process, ask

NOBODY = IpnsName.parse("k51qzi5uqu5dk3v4rmjber23h16xnr23bsggmqqil9z2gduiis5se8dht36dam")
MALFORMED_FOR_KUBO = 500  # what cannot even be read is an error of the call


class OnlineKubo(Kubo):
    """A node that publishes, into its own store: it listens to nobody and knows nobody."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._daemon = Process([self._ipfs, "daemon"], log=self._log, env=self._env)

    async def create(self) -> None:
        await super().create()
        path = self._repository / "config"
        config = json.loads(path.read_text())
        assert config["Bootstrap"] == config["Addresses"]["Swarm"] == []
        config["Routing"]["Type"] = "dht"  # with "none" it would not even look at its own store
        path.write_text(json.dumps(config))

    async def publish(self, cid: str, *, key: str = "ed25519", v1: bool = True) -> IpnsName:
        """The name of a new key of the type *key* that points at *cid*."""
        made = await self._call("key/gen", arg=f"{key}-{v1}", type=key, size="2048")
        options = {"v1compat": str(v1).lower(), "ttl": "10m", "lifetime": "24h"}
        await self._call("name/publish", arg=f"/ipfs/{cid}", key=made["Name"], **options)
        return IpnsName.parse(made["Id"])

    async def judges(self, name: IpnsName, record: bytes) -> bool:
        """Whether Kubo takes *record* for a valid record of *name*."""
        form = aiohttp.FormData()
        form.add_field("file", record, filename="record")
        url = f"{self.url}/api/v0/name/inspect?verify={name}"
        status, text = await ask("POST", url, data=form)
        if status == MALFORMED_FOR_KUBO:
            return False
        valid: bool = json.loads(text)["Validation"]["Valid"]
        return valid

    async def _call(self, command: str, **options: str) -> dict[str, str]:
        answer: dict[str, str] = json.loads(await self._ask(f"{command}?{urlencode(options)}"))
        return answer


@pytest.fixture
async def kubo(tmp_path: Path) -> AsyncIterator[OnlineKubo]:
    kubo = OnlineKubo(tmp_path / "kubo")
    await kubo.create()
    await kubo.start()
    try:
        yield kubo
    finally:
        await kubo.stop()


async def test_what_kubo_publishes_is_verified_whoever_hands_it_on(
    kubo: OnlineKubo, outbound: HttpClient
) -> None:
    """Ed25519 and RSA, with the old fields and without: the same record from three interfaces."""
    cid = await kubo.add_raw(b"hello")
    sources = (
        KuboSource(outbound, kubo.url, seconds=10),
        HttpSource.gateway(outbound, kubo.gateway_url, seconds=10),
        HttpSource.router(outbound, kubo.gateway_url, seconds=10),
    )
    now = datetime.now(UTC)
    for key in ("ed25519", "rsa"):
        for v1 in (True, False):
            name = await kubo.publish(cid, key=key, v1=v1)
            records = {await source.record(name) for source in sources}
            assert len(records) == 1
            data = records.pop()
            assert data is not None
            record = verify(name, data, now)
            assert record.value == f"/ipfs/{cid}"
            assert record.ttl == timedelta(minutes=10)
            assert timedelta(hours=23) < record.valid_until - now < timedelta(hours=25)


async def test_a_name_nobody_published_has_no_record(
    kubo: OnlineKubo, outbound: HttpClient
) -> None:
    """The RPC API and the gateway say so with status 500, the routing API with 404."""
    for source in (
        KuboSource(outbound, kubo.url, seconds=10),
        HttpSource.gateway(outbound, kubo.gateway_url, seconds=10),
        HttpSource.router(outbound, kubo.gateway_url, seconds=10),
    ):
        assert await source.record(NOBODY) is None


async def test_an_offline_kubo_cannot_say(tmp_path: Path, outbound: HttpClient) -> None:
    """A node that does not look has not found out that there is no record."""
    async with running_kubo(tmp_path / "kubo") as offline:
        with pytest.raises(UpstreamUnavailable):
            await KuboSource(outbound, offline.url, seconds=10).record(NOBODY)


async def test_kubo_and_we_judge_alike(kubo: OnlineKubo) -> None:
    """Records of every kind of the specification's test vectors, right and wrong, of each key."""
    now = datetime.now(UTC)
    values = data(Validity=when(now + timedelta(hours=1)))
    expired = data(Validity=when(now - timedelta(hours=1)))
    pairs: list[tuple[Signer, Signer]] = [
        (Signer(), Signer(2)),
        (RsaSigner(), RsaSigner(3072)),
        (EcSigner(), EcSigner()),
        *((EcSigner(curve), EcSigner(curve)) for curve in CURVES),
    ]
    for signer, other in pairs:
        bad = bytes(len(signer.sign(b"")))
        verdicts = {
            "V2": (signer.record(values), True),
            "V1 and V2": (signer.record(values, v1=True), True),
            "the old signature wrong": (signer.record(values, v1=True, fields={2: bad}), True),
            "V1 only": (signer.record(values, v1=True, fields={8: None, 9: None}), False),
            "the new signature wrong": (signer.record(values, v1=True, fields={8: bad}), False),
            "another old value": (signer.record(values, v1=True, fields={1: b"/ipfs/a"}), False),
            "another old sequence": (signer.record(values, v1=True, fields={5: 8}), False),
            "another old TTL": (signer.record(values, v1=True, fields={6: 1}), False),
            "another old validity": (
                signer.record(values, v1=True, fields={4: expired["Validity"]}),
                False,
            ),
            "expired": (signer.record(expired, v1=True), False),
            "somebody else's": (other.record(values), False),
            "with somebody else's key": (
                signer.record(values, fields={7: other.protobuf}),
                False,
            ),
            "cut": (signer.record(values)[:-1], False),
            "with an unknown field": (signer.record(values) + field(10, b"?"), True),
            "with a field 0": (signer.record(values) + field(0, 0), False),
            "twice": (signer.record(values) * 2, True),
            "an old sequence alone": (signer.record(values, fields={5: 8}), True),
            **{
                f"pointing at {value!r}": (signer.record({**values, "Value": value}, v1=True), True)
                for value in (b"", PATH[6:], b"/swarm/abc", b"/ipfs/\xff")
            },
            "the largest sequence": (
                signer.record({**values, "Sequence": 2**63 - 1}, v1=True),
                True,
            ),
            "a larger one": (signer.record({**values, "Sequence": 2**64 - 1}, v1=True), False),
            "a validity that is not of RFC 3339": (
                signer.record({**values, "Validity": b"20990102T030405Z"}),
                False,
            ),
        }
        for what, (record, valid) in verdicts.items():
            assert await kubo.judges(signer.name, record) is valid, what
            try:
                verify(signer.name, record, now)
                believed = True
            except InvalidUpstreamResponse:
                believed = False
            assert believed is valid, what
