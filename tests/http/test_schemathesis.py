"""Schemathesis, all phases, against the running service: what it finds is a defect."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from content_gateway.settings.model import PACKAGED_SPEC
from tests.fakes.ethereum import Name, running_ethereum
from tests.process import running

pytestmark = pytest.mark.deep

EXAMPLES = os.environ.get("SCHEMATHESIS_EXAMPLES", "50")
# That too long a path was refused is no defect, though it was refused for another reason. And a
# requestor has one pin of a CID: where two POSTs of it have told the same request id, the second
# DELETE rightly finds nothing.
CONFIG = """
[checks]
ensure_resource_availability.enabled = false
negative_data_rejection.expected-statuses = [
    400, 401, 403, 404, 405, 406, 409, 414, 415, 422, 428, 429, 431, "5xx"
]
"""
WALLET = "0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045"


async def test_schemathesis_finds_nothing(tmp_path: Path) -> None:
    """Issued keys, a node that answers, the embedded store: no failure in any phase."""
    async with running_ethereum() as ethereum:
        ethereum.names["site.demo"] = Name(address=WALLET)
        settings = {
            "CONTENT_GATEWAY_ENS__RPC_URLS": f'["{ethereum.url}"]',
            "CONTENT_GATEWAY_EMBEDDED__SERVE": "true",
        }
        async with running("serve", tmp_path / "data", settings) as service:
            key = await _key(tmp_path / "data")
            (tmp_path / "schemathesis.toml").write_text(CONFIG)
            child = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "schemathesis.cli", "run", str(PACKAGED_SPEC)),
                *("--url", service.url),
                *("--header", f"x-api-key: {key}", "--header", f"Authorization: Bearer {key}"),
                *("--max-examples", EXAMPLES),
                *("--phases", "examples,coverage,fuzzing,stateful", "--seed", "1"),
                *("--no-color", "--continue-on-failure", "--suppress-health-check", "all"),
                cwd=tmp_path,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
            )
            report, _ = await child.communicate()
    text = report.decode()
    assert child.returncode == 0, text[-8000:]
    assert "Tested: 18" in text, text[-2000:]


async def _key(data: Path) -> str:
    """An issued key of the ledger below *data*, by the operator's own command."""
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "content_gateway", "keys", "create", "--name", "fuzzer"),
        env=os.environ | {"CONTENT_GATEWAY_DATA_DIR": str(data)},
        stdout=asyncio.subprocess.PIPE,
    )
    key, _ = await child.communicate()
    return key.decode().strip()
