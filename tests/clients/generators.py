"""Generators of clients: how each is run on a description, and how what it makes is compiled.

Knows where `make peers` puts them. What a client is then asked to do is in drivers/."""

import asyncio
import os
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from tests.world.peers import require_peer

DRIVERS: Final = Path(__file__).parent / "drivers"
_SECONDS: Final = 300
_HEY: Final = """export default {
  input: "spec.json",
  output: {path: "hey", importFileExtension: ".js"},
  plugins: ["@hey-api/client-fetch", "zod", {name: "@hey-api/sdk", validator: true}],
};
"""
# Blocks and CARs are bytes of media types that it does not know.
_OVERRIDES: Final = """content_type_overrides:
  application/vnd.ipld.raw: application/octet-stream
  application/vnd.ipld.car: application/octet-stream
"""
_TSCONFIG: Final = """{
  "compilerOptions": {
    "strict": true, "target": "es2022", "module": "nodenext", "outDir": "made",
    "noUncheckedIndexedAccess": true, "skipLibCheck": true, "types": ["node"]
  },
  "files": ["driver.ts"]
}
"""

# Where a client is made, from spec.json there; the command that runs its driver comes back.
Generator = Callable[[Path], Awaitable[list[str]]]


async def run(folder: Path, *command: str, **environ: str) -> str:
    """What *command* prints when it is run in *folder*; fails where it fails."""
    child = await asyncio.create_subprocess_exec(
        *command,
        cwd=folder,
        env=os.environ | environ,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(_SECONDS):
            said, complained = await child.communicate()
    finally:
        if child.returncode is None:
            child.kill()
    assert child.returncode == 0, (said + complained).decode()[-4000:]
    return said.decode()


def program(path: str) -> str:
    """The script *path* of an npm package that `make peers` installed."""
    package = "/".join(path.split("/")[:2])
    return str(require_peer(package) / path.removeprefix(package + "/"))


def _generators() -> Path:
    return require_peer("oapi-codegen").parents[1] / "generators"


async def openapi_python_client(folder: Path) -> list[str]:
    """Python with httpx and attrs."""
    python = str(_generators() / "python" / "bin" / "python")
    (folder / "config.yml").write_text(_OVERRIDES)
    module = (python, "-m", "openapi_python_client", "generate", "--config", "config.yml")
    said = await run(folder, *module, "--path", "spec.json", "--output-path", "client")
    assert "WARNING parsing" not in said, said  # it leaves out what it cannot read
    return await _python(folder, folder / "client", python, "by_openapi_python_client.py")


async def openapi_generator(folder: Path) -> list[str]:
    """Python with urllib3 and pydantic."""
    python = str(_generators() / "python" / "bin" / "python")
    script = (python, "-c", "from openapi_generator_cli import cli; cli()")
    await run(folder, *script, "generate", "-i", "spec.json", "-g", "python", "-o", "client")
    return await _python(folder, folder / "client", python, "by_openapi_generator.py")


async def oapi_codegen(folder: Path) -> list[str]:
    """Go; built from what stands in the cache alone."""
    shutil.copytree(_generators() / "go", folder, dirs_exist_ok=True)
    (folder / "gateway").mkdir()
    generate = (str(require_peer("oapi-codegen")), "-generate", "types,client")
    await run(folder, *generate, "-package", "gateway", "-o", "gateway/client.go", "spec.json")
    shutil.copy(DRIVERS / "main.go", folder)
    offline = {"GOFLAGS": "-mod=vendor", "GOPROXY": "off", "GOTOOLCHAIN": "local"}
    await run(folder, "go", "vet", "./...", **offline)
    await run(folder, "go", "build", "-o", "driver", ".", **offline)
    return [str(folder / "driver")]


async def openapi_fetch(folder: Path) -> list[str]:
    """TypeScript: the types of openapi-typescript, and fetch."""
    script = program("openapi-typescript/bin/cli.js")
    await run(folder, "node", script, "spec.json", "-o", "schema.ts")
    return await _typescript(folder, "by_openapi_fetch.ts")


async def hey_api(folder: Path) -> list[str]:
    """TypeScript: Hey API, whose zod schemas validate every answer."""
    (folder / "openapi-ts.config.mjs").write_text(_HEY)
    script = program("@hey-api/openapi-ts/bin/run.js")
    await run(folder, "node", script)
    return await _typescript(folder, "by_hey_api.ts")


GENERATORS: Final[dict[str, Generator]] = {
    "openapi-python-client": openapi_python_client,
    "openapi-generator": openapi_generator,
    "oapi-codegen": oapi_codegen,
    "openapi-fetch": openapi_fetch,
    "hey-api": hey_api,
}


async def _python(folder: Path, client: Path, python: str, driver: str) -> list[str]:
    await run(folder, python, "-m", "compileall", "-q", str(client))
    script = folder / "driver.py"
    lines = ["import sys", f"sys.path.insert(0, {str(client)!r})", (DRIVERS / driver).read_text()]
    script.write_text("\n".join(lines))
    return [python, str(script)]


async def _typescript(folder: Path, driver: str) -> list[str]:
    (folder / "node_modules").symlink_to(_generators() / "node_modules")
    (folder / "package.json").write_text('{"type": "module"}')
    (folder / "tsconfig.json").write_text(_TSCONFIG)
    shutil.copy(DRIVERS / driver, folder / "driver.ts")
    await run(folder, "node", program("typescript/bin/tsc"))
    return ["node", str(folder / "made" / "driver.js")]
