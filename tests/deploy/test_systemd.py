"""The units: what systemd says of them, and the service as a real systemd runs it."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deploy.container import booted, require_container
from tests.deploy.files import DEPLOY
from tests.world.peers import absent

# Of ten, by `systemd-analyze security`; what is left is that it talks to the whole internet.
MOST_EXPOSED = 1.2
CID = "bafkqabtimvwgy3yk"
CONFIG = """
data_dir = "/var/lib/content-gateway"
[ens]
rpc_urls = []
[names]
zone_file = "/etc/content-gateway/zone.toml"
[ipns]
routers = []
[embedded]
gateways = []
"""
ZONE = f"""
[names."site.example"]
address = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"
content = "ipfs://{CID}"
"""
AS_USER = "runuser -u content-gateway -- /opt/content-gateway/bin/content-gateway"
ASK = """
export LD_LIBRARY_PATH=/opt/python/lib
ask() {  # ask PATH [KEY]: status and body
    /opt/content-gateway/bin/python - "$@" <<'END'
import sys, urllib.error, urllib.request
path, *key = sys.argv[1:]
url = path if "://" in path else "http://127.0.0.1:8080" + path
request = urllib.request.Request(url, headers={"x-api-key": key[0]} if key else {})
try:
    answer = urllib.request.urlopen(request, timeout=20)
except urllib.error.HTTPError as refused:
    answer = refused
print(answer.status, answer.read().decode()[:300])
END
}
up() { for _ in {1..100}; do ask /version 2>/dev/null && return; sleep 0.1; done; }
show() { systemctl show content-gateway -p "$1"; }
"""


def analyze(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    program = shutil.which("systemd-analyze") or absent("systemd-analyze is not on this machine")
    return subprocess.run(
        [program, *map(str, arguments)], check=False, capture_output=True, text=True, timeout=60
    )


def test_systemd_finds_nothing_wrong(tmp_path: Path) -> None:
    """Not a word about either unit, once the program is where the unit says."""
    for name in ("content-gateway.service", "content-gateway.socket"):
        text = (DEPLOY / name).read_text()
        text = text.replace("/opt/content-gateway/bin/content-gateway", sys.executable)
        (tmp_path / name).write_text(text)
    told = analyze("verify", *sorted(tmp_path.iterdir()))
    ours = [line for line in told.stderr.splitlines() if "content-gateway" in line]
    assert (told.returncode, ours) == (0, [])


def test_the_service_is_exposed_no_more_than_it_must_be() -> None:
    """The score of its sandbox, from 0 (safe) to 10; `--threshold` takes tenths."""
    threshold = f"--threshold={MOST_EXPOSED * 10:.0f}"
    told = analyze("security", "--offline=yes", threshold, DEPLOY / "content-gateway.service")
    assert told.returncode == 0, told.stdout
    exposed = re.search(r"Overall exposure level.*: ([\d.]+)", told.stdout)
    assert exposed is not None
    assert float(exposed[1]) <= MOST_EXPOSED


async def run(folder: Path, script: str, **more: str) -> str:
    require_container()
    files = {
        "/etc/content-gateway/gateway.toml": CONFIG,
        "/etc/content-gateway/zone.toml": ZONE,
        **more,
    }
    return await booted(folder, ASK + script, files)


def with_workers(number: int) -> dict[str, str]:
    """The drop-in for a service of so many processes."""
    drop_in = "/etc/systemd/system/content-gateway.service.d/workers.conf"
    return {drop_in: f"[Service]\nEnvironment=CONTENT_GATEWAY_WORKERS={number}\n"}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.deep)])
async def test_the_unit_runs_the_service_in_its_sandbox(tmp_path: Path, workers: int) -> None:
    """A key is issued as its user, a name resolved, a pin kept, the service reloaded and stopped;
    and the sandbox is there: nothing but the folder of state can be written."""
    script = f"""
    systemctl start content-gateway; echo "start $?"
    up
    KEY=$({AS_USER} keys create --name team --config /etc/content-gateway/gateway.toml 2>/root/why)
    ask /domain/resolve/site.example "$KEY"
    ask /domain/resolve/site.example
    ask http://127.0.0.1:8081/readyz
    pid=$(show MainPID)
    {AS_USER} pin add {CID} --config /etc/content-gateway/gateway.toml --wait
    status=/proc/${{pid#*=}}/status
    grep -E '^(NoNewPrivs|CapEff|CapBnd|Seccomp):' $status
    nsenter --target ${{pid#*=}} --mount sh -c 'touch /etc/x /opt/x'
    nsenter --target ${{pid#*=}} --mount sh -c 'touch /var/lib/content-gateway/x && echo writable'
    stat -c '%n %U %a' /var/lib/content-gateway /var/lib/content-gateway/ledger.sqlite
    show NRestarts
    systemctl stop content-gateway; echo "stop $?"
    show Result
    journalctl -u content-gateway -o cat --no-pager
    """
    said = await run(tmp_path, script, **with_workers(workers))
    for line in (
        "start 0",
        '200 {"message":"Domain resolved"',
        "401 ",
        "200 [+]stopping ok",
        "NoNewPrivs:\t1",
        "CapEff:\t0000000000000000",
        "CapBnd:\t0000000000000000",
        "Seccomp:\t2",
        "touch: cannot touch '/etc/x': Read-only file system",
        "touch: cannot touch '/opt/x': Read-only file system",
        "writable",
        "/var/lib/content-gateway content-gateway 700",
        "/var/lib/content-gateway/ledger.sqlite content-gateway 600",
        "NRestarts=0",
        "stop 0",
        "Result=success",
    ):
        assert f"\n{line}" in f"\n{said}", f"{line!r} is not in:\n{said}"
    assert "status     pinned" in said
    assert "Traceback" not in said
    assert "[error" not in said


@pytest.mark.timeout(300)
async def test_a_secret_is_a_credential_that_only_root_can_read(tmp_path: Path) -> None:
    """It is handed to the service; nobody sees it in the environment or the process list."""
    drop_in = """
    [Service]
    LoadCredential=rpc-urls:/etc/content-gateway/rpc-urls
    Environment=CONTENT_GATEWAY_ENS__RPC_URLS_FILE=%d/rpc-urls
    """
    script = """
    chmod 600 /etc/content-gateway/rpc-urls
    systemctl start content-gateway
    up
    pid=$(show MainPID)
    tr '\\0' '\\n' < /proc/${pid#*=}/environ | grep RPC_URLS
    /opt/content-gateway/bin/python -c '
import os, subprocess, sys
lines = open("/proc/" + sys.argv[1] + "/environ").read().split("\\0")
environment = dict(line.split("=", 1) for line in lines if line)
command = ["nsenter", "--target", sys.argv[1], "--mount",
    "/opt/content-gateway/bin/content-gateway", "config", "show"]
print(subprocess.run(command, env=environment, capture_output=True, text=True).stdout)
    ' ${pid#*=} | grep ens.rpc_urls
    """
    said = await run(
        tmp_path,
        script,
        **{
            "/etc/content-gateway/rpc-urls": '["http://127.0.0.1:1/v3/canary-of-the-operator"]',
            "/etc/systemd/system/content-gateway.service.d/secrets.conf": drop_in,
        },
    )
    assert "RPC_URLS_FILE=/run/credentials/content-gateway.service/rpc-urls" in said
    assert "127.0.0.1:1" in said, said
    assert "canary" not in said


@pytest.mark.timeout(300)
async def test_wrong_settings_are_told_and_not_tried_again(tmp_path: Path) -> None:
    """The unit fails at once, and the journal has the sentence."""
    wrong = {"/etc/content-gateway/gateway.toml": "prot = 80\n"}
    script = """
    systemctl start content-gateway
    sleep 3
    show ActiveState
    show NRestarts
    journalctl -u content-gateway -o cat --no-pager
    """
    said = await run(tmp_path, script, **wrong)
    assert "ActiveState=failed" in said
    assert "NRestarts=0" in said
    assert "there is no such setting; did you mean port?" in said


@pytest.mark.timeout(300)
@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.deep)])
async def test_a_reload_keeps_the_process_and_a_standstill_does_not(
    tmp_path: Path, workers: int
) -> None:
    """HUP is no end; a process that no longer turns is ended by the watchdog, and begun again."""
    impatient = "[Service]\nWatchdogSec=2\nTimeoutStopSec=5\n"
    script = """
    systemctl start content-gateway; echo "start $?"
    before=$(show MainPID)
    systemctl reload content-gateway; echo "reload $?"
    up
    [[ $(show MainPID) == "$before" ]] && echo "the same process"
    # There is no watchdog during a reload, and workers take a while to be replaced.
    for _ in {1..300}; do
        journalctl -u content-gateway -o cat --no-pager | grep -qE "were (replaced|read again)" &&
            [[ $(show SubState) == SubState=running ]] && break
        sleep 0.1
    done
    kill -STOP ${before#*=}
    # Without word of the kernel that the last worker is gone, systemd waits for TimeoutStopSec.
    for _ in {1..600}; do [[ $(show NRestarts) == NRestarts=1 ]] && break; sleep 0.1; done
    show NRestarts
    up
    """
    drop_in = "/etc/systemd/system/content-gateway.service.d/impatient.conf"
    said = await run(tmp_path, script, **with_workers(workers), **{drop_in: impatient})
    version = '200 {"version"'
    assert said.startswith(f"start 0\nreload 0\n{version}")
    assert re.search(r"the same process\nNRestarts=1\n200 ", said), said


@pytest.mark.timeout(300)
async def test_the_socket_outlives_the_service(tmp_path: Path) -> None:
    """The first connection starts it, and a restart refuses none."""
    script = """
    systemctl start content-gateway.socket
    show ActiveState
    ask /version
    show ActiveState
    (for _ in {1..40}; do ask /version; sleep 0.05; done) > /root/answers 2>&1 &
    sleep 0.5
    systemctl restart content-gateway; echo "restart $?"
    wait
    sort /root/answers | uniq -c
    """
    said = await run(tmp_path, script)
    assert said.index("ActiveState=inactive") < said.index("ActiveState=active")
    assert "restart 0" in said
    assert re.search(r"^\s+40 200 ", said, re.MULTILINE), said
