"""A systemd of our own, booted by systemd-nspawn, in which a unit runs as it does on a server.

Its root is a folder of the test: programs and libraries are the machine's, read-only; users,
units, state and network are its own. Only root can do this. What is to happen in it is a script."""

import asyncio
import os
import secrets
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import content_gateway
from tests.deploy.files import DEPLOY
from tests.world.peers import absent

SECONDS = 180
_PYTHON = "/opt/python"
_PROGRAM_FOLDER = "/opt/content-gateway/src"
# For all units. Where Python's library is: it was built for another folder. And where the program
# is: the checkout may be in somebody's home, which the unit does not see (ProtectHome).
_PLACES = f"LD_LIBRARY_PATH={_PYTHON}/lib PYTHONPATH={_PROGRAM_FOLDER}"
_SOURCE = Path(content_gateway.__file__).parents[1]
_PROGRAM = """#!/opt/content-gateway/bin/python
from content_gateway.cli.main import main
main()
"""
_SCRIPT_UNIT = """
[Unit]
After=basic.target systemd-journald.service
[Service]
Type=oneshot
ExecStart=/bin/bash /root/script
StandardOutput=append:/root/said
StandardError=inherit
ExecStopPost=/bin/systemctl --no-block poweroff
"""


def require_container() -> None:
    """Skip where no systemd can be booted."""
    if os.geteuid() != 0:
        pytest.skip("only root can boot a systemd of its own")
    for program in ("systemd-nspawn", "systemctl"):
        if shutil.which(program) is None:
            absent(f"{program} is not installed: run `make peers`")


async def booted(
    folder: Path, script: str, files: dict[str, str], *, is_installed: bool = True
) -> str:
    """What the bash *script* says that is run in a booted system with these *files*.

    The service is in /opt/content-gateway, deploy/ in /root/content-gateway; units and user are as
    docs/operating.md has them if it *is_installed*. Raises TimeoutError where it does not end."""
    root = folder / "root"
    _lay_out(root, {"/root/script": script, **files}, is_installed=is_installed)
    python = Path(sys.base_prefix)
    command = ["systemd-nspawn", "--quiet", f"--directory={root}", "--boot"]
    command += ["--register=no", "--keep-unit", "--private-network", "--console=pipe"]
    command += [f"--machine=content-gateway-{secrets.token_hex(4)}", "--link-journal=no"]
    command += ["--bind-ro=/usr", f"--bind-ro={_SOURCE}:{_PROGRAM_FOLDER}"]
    command += [f"--bind-ro={python}:{_PYTHON}", f"--bind-ro={DEPLOY}:/root/content-gateway/deploy"]
    packages = Path(sys.prefix) / "lib" / f"python{_version()}" / "site-packages"
    command += [f"--bind-ro={packages}:/opt/content-gateway/lib/python{_version()}/site-packages"]
    with (folder / "console").open("wb") as console:
        child = await asyncio.create_subprocess_exec(
            *command, stdin=subprocess.DEVNULL, stdout=console, stderr=console
        )
    try:
        async with asyncio.timeout(SECONDS):
            await child.wait()
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    said = root / "root" / "said"
    if not said.exists():
        raise AssertionError((folder / "console").read_text(errors="replace")[-3000:])
    return said.read_text()


def _version() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def _lay_out(root: Path, files: dict[str, str], *, is_installed: bool) -> None:
    for name in ("usr", "etc", "var", "opt/content-gateway/bin", "root", "tmp", "run"):
        (root / name).mkdir(parents=True)
    for name in ("bin", "sbin", "lib", "lib64"):
        if Path("/", name).is_symlink():
            (root / name).symlink_to(f"usr/{name}")
    for name in ("ld.so.cache", "nsswitch.conf", "os-release"):
        shutil.copy(Path("/etc", name), root / "etc" / name)
    for name in ("pam.d", "security"):  # which runuser asks
        shutil.copytree(Path("/etc", name), root / "etc" / name)
    (root / "opt/content-gateway/bin/python").symlink_to(f"{_PYTHON}/bin/python{_version()}")
    (root / "opt/content-gateway/bin/content-gateway").touch(0o755)
    units = "/etc/systemd/system"
    ours = {
        "/opt/content-gateway/bin/content-gateway": _PROGRAM,
        "/opt/content-gateway/pyvenv.cfg": f"home = {_PYTHON}/bin\n",
        "/etc/machine-id": "0123456789abcdef0123456789abcdef\n",
        "/etc/passwd": "root:x:0:0:root:/root:/bin/sh\n",
        "/etc/group": "root:x:0:\n",
        f"{units}/script.service": _SCRIPT_UNIT,
        f"{units}/default.target": "[Unit]\nRequires=basic.target\nWants=script.service\n",
        "/etc/systemd/system.conf.d/machine.conf": f"[Manager]\nDefaultEnvironment={_PLACES}\n",
    }
    if is_installed:
        sysusers = (DEPLOY / "content-gateway.sysusers").read_text()
        ours["/etc/sysusers.d/content-gateway.conf"] = sysusers
        for name in ("content-gateway.service", "content-gateway.socket"):
            ours[f"{units}/{name}"] = (DEPLOY / name).read_text()
    for path, text in (ours | files).items():
        file = root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
