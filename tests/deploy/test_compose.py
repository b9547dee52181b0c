"""The Compose file: read by the loader that Compose itself has, and looked at for what it lets out.

No image can be pulled here, so nothing of it is started; whether the tags exist is not tested."""

import json
import os
import re
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from content_gateway.settings.model import Settings, fields
from tests.deploy.files import DEPLOY
from tests.world.peers import require_peer

PREFIX = "CONTENT_GATEWAY_"
OWN_VARIABLES = {"CONTENT_GATEWAY_SITE", "CONTENT_GATEWAY_UPSTREAM"}  # the Caddyfile's
NAMES = list(yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"])


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    """The project as Compose understands it; it is valid, or this fails."""
    told = subprocess.run(
        [
            str(require_peer("compose-spec")),
            "--no-interpolation",
            "--format",
            "json",
            "compose.yaml",
        ],
        cwd=DEPLOY,
        env={**os.environ, "CONTENT_GATEWAY_SITE": "gateway.example"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert told.returncode == 0, told.stderr
    read: dict[str, Any] = json.loads(told.stdout)
    return read


@pytest.mark.parametrize("name", NAMES)
def test_no_container_may_more_than_it_needs(project: dict[str, Any], name: str) -> None:
    """A read-only root, no capability but those that are named, no new ones; and it is watched."""
    service = project["services"][name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["restart"] == "unless-stopped"
    assert service["logging"]["options"]["max-size"]
    assert not service.get("privileged")
    of_the_image = "HEALTHCHECK" in (DEPLOY / "Dockerfile").read_text() and name == "gateway"
    assert of_the_image or service["healthcheck"]["test"]


@pytest.mark.parametrize("name", NAMES)
def test_an_image_is_one_version(project: dict[str, Any], name: str) -> None:
    """A tag that names it to its last digit; what changes is changed here."""
    assert re.fullmatch(r"[\w./-]+:v?\d+\.\d+\.\d+(-\w+)?", project["services"][name]["image"])


def test_only_what_is_for_the_world_is_published(project: dict[str, Any]) -> None:
    """TLS, Kubo's swarm, and Grafana on loopback; never 5001, 8080, 8081, 9090 or 9094."""
    published = {
        (name, str(port["published"]), port.get("host_ip"))
        for name, service in project["services"].items()
        for port in service.get("ports", ())
    }
    assert published == {
        ("caddy", "80", None),
        ("caddy", "443", None),
        ("kubo", "4001", None),
        ("grafana", "3000", "127.0.0.1"),
    }


def members(project: dict[str, Any]) -> Iterator[tuple[str, set[str]]]:
    """Each network, and the services in it."""
    for network in project["networks"]:
        inside = {
            name for name, one in project["services"].items() if network in one.get("networks", ())
        }
        yield network, inside


def test_networks_keep_inside_what_has_no_password(project: dict[str, Any]) -> None:
    """Whoever shares a network with Kubo's RPC, the cluster or the metrics is meant to."""
    assert dict(members(project)) == {
        "public": {"caddy", "kubo", "grafana"},
        "upstream": {"gateway"},
        "front": {"caddy", "gateway"},
        "back": {"gateway", "cluster"},
        "nodes": {"cluster", "kubo"},
        "metrics": {"gateway", "prometheus"},
        "dashboards": {"prometheus", "grafana"},
    }
    ways_out = {name for name, one in project["networks"].items() if not one.get("internal")}
    assert ways_out == {"public", "upstream"}


def test_secrets_are_files(project: dict[str, Any]) -> None:
    """None is in the file or in an environment; each one that is there is given to somebody."""
    given = [
        secret["source"] if isinstance(secret, dict) else secret
        for service in project["services"].values()
        for secret in service.get("secrets", ())
    ]
    assert set(given) == set(project["secrets"])
    for service in project["services"].values():
        for variable, value in service.get("environment", {}).items():
            is_secret = re.search(r"PASSWORD|SECRET|TOKEN|RPC_URLS", variable)
            assert not is_secret or (
                variable.endswith("_FILE") and value.startswith("/run/secrets/")
            )
    ignored = (DEPLOY.parent / ".gitignore").read_text().splitlines()
    assert "deploy/secrets/" in ignored


def test_the_service_s_settings_exist(project: dict[str, Any]) -> None:
    """Each variable is that of a setting, and Prometheus asks where the admin listener is."""
    known = {name for name, _ in fields()}
    for variable in project["services"]["gateway"]["environment"]:
        name = variable.removeprefix(PREFIX).lower().replace("__", ".").removesuffix("_file")
        assert name in known
    for variable in project["services"]["caddy"]["environment"]:
        assert variable in OWN_VARIABLES
        assert "{$" + variable in (DEPLOY / "Caddyfile").read_text()
    targets = yaml.safe_load(project["configs"]["targets"]["content"])
    assert targets == [{"targets": [f"gateway:{Settings().admin.port}"]}]


def test_what_is_mounted_is_there(project: dict[str, Any]) -> None:
    """Each file of deploy/ that a container is given; what is written goes to a volume."""
    for service in project["services"].values():
        for volume in service.get("volumes", ()):
            if volume["type"] == "bind":
                assert os.path.exists(DEPLOY / volume["source"])
                assert volume["read_only"]
            else:
                assert volume["source"] in project["volumes"]
