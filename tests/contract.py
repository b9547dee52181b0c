"""Every response against spec.yaml: the check that all HTTP tests share.

An answer to an operation of the contract must be one that it describes, header fields and body
included; an answer to anything else must be a problem document, or below /psa a failure in the
form of the Pinning Service API."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import yaml
from multidict import CIMultiDict
from openapi_core import Config, OpenAPI
from openapi_core.datatypes import RequestParameters
from openapi_core.templating.paths.exceptions import PathError
from openapi_schema_validator import OAS30ReadValidator

SPEC = Path(__file__).parents[1] / "src" / "content_gateway" / "spec.yaml"
PROBLEM = "application/problem+json"
TEXTS = ("text/html", "text/css", "text/javascript", "image/svg+xml")
BINARY = ("application/vnd.ipld.raw", "application/vnd.ipld.car", "application/dns-message")
DNS_JSON = "application/dns-json"
# The files of domains, whose path is the last parameter, with its slashes.
FILES = "/domain/ipfs/"
# Whose last parameter is a path of any length, which OpenAPI cannot say.
WITH_PATH = re.compile(r"(/domain/ipfs/[^/]*|/ipfs/(?!pin/)[^/]+(?=/.))(.*)")
FILE = "application/octet-stream"


@dataclass(frozen=True)
class Answer:
    """A complete HTTP answer; header names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body, decoded."""
        return msgspec.json.decode(self.body)


@dataclass
class _Request:
    """A request in openapi-core's words."""

    method: str
    path: str
    host_url: str = "http://127.0.0.1"
    content_type: str = ""
    body: bytes | None = None
    parameters: RequestParameters = field(default_factory=RequestParameters)


class _Block(bytes):
    """A body that is there, also where it is empty, as the block of an empty CID is."""

    def __bool__(self) -> bool:
        return True


@dataclass(frozen=True)
class _Response:
    """A response in openapi-core's words."""

    answer: Answer
    is_file: bool = False  # of a domain: whatever its type, it is bytes

    @property
    def data(self) -> bytes | None:
        if self.is_file or self.content_type.startswith(BINARY):
            return _Block(self.answer.body)
        return self.answer.body or None

    @property
    def status_code(self) -> int:
        return self.answer.status

    @property
    def content_type(self) -> str:
        if self.is_file:
            return FILE
        return self.answer.headers.get("content-type", "")

    @property
    def headers(self) -> Mapping[str, str]:
        return CIMultiDict(self.answer.headers)


@cache
def contract() -> "ContractCheck":
    """The check by the packaged description, which takes a fifth of a second to make."""
    return ContractCheck()


class ContractCheck:
    """Compares answers with a description."""

    def __init__(self, spec: Path = SPEC) -> None:
        self.tree = yaml.safe_load(spec.read_text())
        readers: dict[str, Any] = {
            media_type: lambda value, **_: msgspec.json.decode(value)
            for media_type in (PROBLEM, DNS_JSON)
        }
        readers |= {media_type: lambda value, **_: value for media_type in (*BINARY, FILE)}
        readers |= {media_type: lambda value, **_: value.decode() for media_type in TEXTS}
        self._openapi = OpenAPI.from_dict(
            self.tree, config=Config(extra_media_type_deserializers=readers)
        )
        self._problem, self._failure = [
            OAS30ReadValidator({"$ref": f"#/components/schemas/{name}", **self.tree})
            for name in ("Problem", "PsaFailure")
        ]

    def check(self, method: str, path: str, answer: Answer) -> None:
        """Raises when *answer* to *method* on the bare *path* is not what the contract says."""
        assert answer.headers["x-request-id"]
        if method == "HEAD" and (answer.status >= 400 or "head" not in self._item(path)):
            # The header fields are GET's, as is what they say of the body that is not there.
            assert not answer.body
            assert "content-type" in answer.headers or answer.status == 304
            return
        if method == "OPTIONS" and answer.status == 204:
            assert "OPTIONS" in answer.headers["allow"]
            assert not answer.body
            return
        if answer.status >= 400 and (path == "/psa" or path.startswith("/psa/")):
            self.check_failure(answer)
        elif answer.status >= 400:
            self.check_problem(answer)
        is_file = path.startswith(FILES) and answer.status < 400
        if found := WITH_PATH.fullmatch(path):
            path = f"{found[1]}/{found[2][1:].replace('/', '%2F') or '%2F'}"
        request: Any = _Request(method.lower(), path)
        try:
            self._openapi.validate_response(request, _Response(answer, is_file))
        except PathError:
            assert answer.status in (404, 405) or method == "OPTIONS", (
                f"{method} {path} is not described"
            )

    def _item(self, path: str) -> Mapping[str, Any]:
        """The path item of *path*; none for what is not described."""
        if WITH_PATH.fullmatch(path):
            path = f"{FILES}{{domain}}/{{path}}" if path.startswith(FILES) else "/ipfs/{cid}/{path}"
        beginning = path.rpartition("/")[0]
        for template, item in self.tree["paths"].items():
            if template == path or template.startswith(beginning + "/{"):
                return dict(item)
        return {}

    def check_problem(self, answer: Answer) -> None:
        """Raises when *answer* is not a problem document in our form."""
        assert answer.headers["content-type"] == PROBLEM
        assert answer.headers["cache-control"] == "no-store"
        body = answer.json
        self._problem.validate(body)
        assert body["status"] == answer.status
        assert body["message"] == body["detail"]
        assert body["type"] == f"/docs/errors#{body['code']}"
        assert body["requestId"] == answer.headers["x-request-id"]

    def check_failure(self, answer: Answer) -> None:
        """Raises when *answer* is not a failure as the Pinning Service API has it."""
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["cache-control"] == "no-store"
        self._failure.validate(answer.json)
