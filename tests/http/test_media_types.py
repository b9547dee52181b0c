"""The type of a file does not depend on the machine: by its ending, and else by how it begins."""

import mimetypes

from content_gateway.http.media_types import _BY_ENDING, by_content, by_name
from tests.cases import case

NAMES = {
    "index.html": "text/html; charset=utf-8",
    "INDEX.HTM": "text/html; charset=utf-8",
    "main.3f2a9c1.js": "text/javascript; charset=utf-8",
    "chunk.mjs": "text/javascript; charset=utf-8",
    "app.wasm": "application/wasm",
    "logo.svg": "image/svg+xml",
    "manifest.webmanifest": "application/manifest+json",
    "archive.tar.gz": "application/gzip",
    "README": None,
    "html": None,
    ".": None,
    "": None,
    "what.unknown": None,
}
BEGINNINGS = {
    b"": "text/plain; charset=utf-8",
    b"plain words": "text/plain; charset=utf-8",
    "räksmörgås".encode(): "text/plain; charset=utf-8",
    b"\x00\x01": "application/octet-stream",
    b"words" + bytes(1): "application/octet-stream",
    b"\n <!DOCTYPE html>": "text/html; charset=utf-8",
    b"<html lang=en>": "text/html; charset=utf-8",
    b"<p>": "text/html; charset=utf-8",
    b"<pre>": "text/plain; charset=utf-8",
    b"<!-- a comment": "text/html; charset=utf-8",
    b"<?xml version='1.0'?>": "application/xml",
    b"%PDF-1.7": "application/pdf",
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff\xe0": "image/jpeg",
    b"GIF89a": "image/gif",
    b"RIFF\x00\x00\x00\x00WEBP": "image/webp",
    b"\x00\x00\x00\x20ftypisom": "video/mp4",
    b"\x00\x00\x00\x20ftypavif": "image/avif",
}


def test_the_ending_of_a_name_tells() -> None:
    for name, media_type in NAMES.items():
        with case(name):
            assert by_name(name) == media_type


def test_the_beginning_tells_where_there_is_no_ending() -> None:
    """Text is of UTF-8, as nearly all of it is; what is no text is bytes."""
    for beginning, media_type in BEGINNINGS.items():
        with case(beginning):
            assert by_content(beginning) == media_type


def test_the_table_agrees_with_that_of_python() -> None:
    """Where both know an ending, but for other names of one type (RFC 6350, 7845, 9239)."""
    newer = {
        "text/javascript": "application/javascript",
        "image/x-icon": "image/vnd.microsoft.icon",
        "text/vcard": "text/x-vcard",
        "audio/ogg": "audio/opus",
        "audio/wav": "audio/x-wav",
    }
    theirs = mimetypes.MimeTypes(filenames=()).types_map[True]
    for ending, media_type in _BY_ENDING.items():
        bare = media_type.partition(";")[0]
        if ending in ("xml", "webm", "mkv", "gz") or f".{ending}" not in theirs:
            continue
        with case(ending):
            assert theirs[f".{ending}"] in (bare, newer.get(bare))
