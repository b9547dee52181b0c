"""The demonstration, set up: key, record and zone file below one folder, and who serves them.

Makes what is missing and signs the IPNS record again at each start; three names below `demo` then
show a wallet, IPFS content and IPNS content. The `dev` command puts it to use."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from content_gateway.demo.origin import origin, serving
from content_gateway.demo.publisher import ipns_name, sign_record, site
from content_gateway.errors import StorageUnavailable, WrongSettings
from content_gateway.files.disk import is_of_the_disk
from content_gateway.model.cid import Cid

WALLET: Final = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"
BASE_WALLET: Final = (
    "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"  # on Base (ENSIP-11: 0x80000000 | 8453)
)

_ZONE: Final = """\
# Written by `content-gateway dev`; the format is described in names/zone.py.
authority = ["demo"]

[names."alias.demo"]
address = "{wallet}"

[names."site.demo"]
address = "{wallet}"
addresses.2147492101 = "{base_wallet}"
content = "ipfs://{root}"

[names."blog.demo"]
address = "{wallet}"
content = "ipns://{name}"
"""


@dataclass(frozen=True, slots=True)
class Demo:
    """A running demonstration: where its content is served, its zone, and the site's CID."""

    url: str
    zone_file: Path
    root: Cid


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[Demo]:
    """The demonstration below *folder*; raises WrongSettings when that cannot be written, and
    StorageUnavailable where the disk cannot be written now."""
    root, blocks = site()
    key, zone_file = _prepare(folder, root)
    record = sign_record(key, f"/ipfs/{root}", sequence=int(time.time()))
    async with serving(origin(blocks, {ipns_name(key): record})) as url:
        yield Demo(url, zone_file, root)


def _prepare(folder: Path, root: Cid) -> tuple[Ed25519PrivateKey, Path]:
    """The key of the demonstration's IPNS name, and a zone file that has names for all of it."""
    zone_file = folder / "zone.toml"
    try:
        for made in (folder.parent, folder):  # nobody else's, like all that is kept in it
            made.mkdir(mode=0o700, parents=True, exist_ok=True)
        key = _key(folder / "ipns.key")
        zone_file.write_text(
            _ZONE.format(wallet=WALLET, base_wallet=BASE_WALLET, root=root, name=ipns_name(key))
        )
    except (OSError, ValueError) as wrong:
        if isinstance(wrong, OSError) and is_of_the_disk(wrong):
            raise StorageUnavailable(f"{folder} cannot be used now: {wrong.strerror}.") from wrong
        raise WrongSettings(f"data_dir: {folder} cannot be used: {wrong}") from wrong
    return key, zone_file


def _key(path: Path) -> Ed25519PrivateKey:
    """The key in *path*, made if it is not there."""
    if not path.exists():
        new = path.with_suffix(".new")
        new.touch(mode=0o600)
        new.write_bytes(Ed25519PrivateKey.generate().private_bytes_raw())
        new.replace(path)
    return Ed25519PrivateKey.from_private_bytes(path.read_bytes())
