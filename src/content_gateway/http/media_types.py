"""The media type of a file: by the ending of its name, and else by how it begins.

The table is ours, so that a type does not depend on the machine. What begins a file is read as the
WHATWG's "MIME Sniffing" has it, for the few forms that sites leave without an ending. A browser is
told to take our word for it (`nosniff`)."""

import re
from typing import Final

SNIFFED: Final = 512  # bytes from the beginning
BINARY: Final = "application/octet-stream"
SYMLINK: Final = "inode/symlink"  # as boxo's gateway has it
_UTF8: Final = "; charset=utf-8"
_HTML: Final = f"text/html{_UTF8}"
_PLAIN: Final = f"text/plain{_UTF8}"
_TEXT: Final = {
    "asc": "plain", "conf": "plain", "css": "css", "csv": "csv", "htm": "html", "html": "html",
    "ics": "calendar", "js": "javascript", "log": "plain", "markdown": "markdown",
    "md": "markdown", "mjs": "javascript", "text": "plain", "tsv": "tab-separated-values",
    "txt": "plain", "vcf": "vcard", "vtt": "vtt", "yaml": "yaml", "yml": "yaml",
}  # fmt: skip
_OTHER: Final = {
    "7z": "application/x-7z-compressed", "aac": "audio/aac", "apng": "image/apng",
    "atom": "application/atom+xml", "avi": "video/x-msvideo", "avif": "image/avif",
    "bin": BINARY, "bmp": "image/bmp", "br": "application/x-brotli",
    "bz2": "application/x-bzip2", "car": "application/vnd.ipld.car",
    "cbor": "application/cbor", "eot": "application/vnd.ms-fontobject",
    "epub": "application/epub+zip", "flac": "audio/flac", "geojson": "application/geo+json",
    "gif": "image/gif", "glb": "model/gltf-binary", "gltf": "model/gltf+json",
    "gz": "application/gzip", "ico": "image/x-icon", "jpeg": "image/jpeg", "jpg": "image/jpeg",
    "json": "application/json", "jsonld": "application/ld+json", "jxl": "image/jxl",
    "m4a": "audio/mp4", "m4v": "video/mp4", "map": "application/json", "mkv": "video/x-matroska",
    "mov": "video/quicktime", "mp3": "audio/mpeg", "mp4": "video/mp4", "mpeg": "video/mpeg",
    "oga": "audio/ogg", "ogg": "audio/ogg", "ogv": "video/ogg", "opus": "audio/ogg",
    "otf": "font/otf", "pdf": "application/pdf", "png": "image/png",
    "rss": "application/rss+xml", "svg": "image/svg+xml", "tar": "application/x-tar",
    "tif": "image/tiff", "tiff": "image/tiff", "ttf": "font/ttf", "wasm": "application/wasm",
    "wav": "audio/wav", "weba": "audio/webm", "webm": "video/webm",
    "webmanifest": "application/manifest+json", "webp": "image/webp", "woff": "font/woff",
    "woff2": "font/woff2", "xhtml": "application/xhtml+xml", "xml": "application/xml",
    "xz": "application/x-xz", "zip": "application/zip", "zst": "application/zstd",
}  # fmt: skip
_BY_ENDING: Final = {
    **{ending: f"text/{name}{_UTF8}" for ending, name in _TEXT.items()},
    **_OTHER,
}
_BEGINNINGS: Final = (
    (b"%PDF-", "application/pdf"),
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"\x00\x00\x01\x00", "image/x-icon"),
    (b"\x00asm", "application/wasm"),
    (b"wOFF", "font/woff"),
    (b"wOF2", "font/woff2"),
    (b"PK\x03\x04", "application/zip"),
    (b"\x1f\x8b\x08", "application/gzip"),
    (b"OggS\x00", "application/ogg"),
    (b"ID3", "audio/mpeg"),
    (b"\x1aE\xdf\xa3", "video/webm"),
    (b"<?xml", "application/xml"),
)
_RIFF: Final = {b"WEBP": "image/webp", b"WAVE": "audio/wav", b"AVI ": "video/x-msvideo"}
_TAG: Final = re.compile(
    rb"[\t\n\x0c\r ]*(?:<!doctype html|<(?:html|head|script|iframe|h1|div|font|table|a|style|title"
    rb"|b|body|br|p)(?=[ >])|<!--)",
    re.IGNORECASE,
)
_NO_TEXT: Final = frozenset(range(9)) | {0x0B} | frozenset(range(0x0E, 0x1B)) | set(range(0x1C, 32))


def by_name(name: str) -> str | None:
    """The type that the ending of *name* tells; None where it tells none."""
    return _BY_ENDING.get(name.rpartition(".")[2].lower()) if "." in name else None


def by_content(beginning: bytes) -> str:
    """The type of a file that begins like this, of which SNIFFED bytes are enough."""
    beginning = beginning[:SNIFFED]
    for mark, media_type in _BEGINNINGS:
        if beginning.startswith(mark):
            return media_type
    if beginning[:4] == b"RIFF" and beginning[8:12] in _RIFF:
        return _RIFF[beginning[8:12]]
    if beginning[4:8] == b"ftyp":
        return "image/avif" if beginning[8:12] in (b"avif", b"avis") else "video/mp4"
    if _TAG.match(beginning):
        return _HTML
    return BINARY if _NO_TEXT.intersection(beginning) else _PLAIN
