"""The header field that names the file in which a client keeps an answer.

Knows `Content-Disposition` (RFC 6266, appendix D): a name in ASCII for everybody, and the name
itself (RFC 8187) for whoever reads it."""

import re
from typing import Final
from urllib.parse import quote

# A quoted backslash or percent sign is read in different ways.
_NOT_PLAIN: Final = re.compile(r'[^ -~]|["\\%]')
_PLAIN: Final = "!#$&+-.^_`|~"  # what a name may have unescaped (RFC 8187 section 3.2.1, attr-char)


def attachment(name: str) -> tuple[bytes, bytes]:
    """The field for an answer that is to be kept as *name*, and never shown."""
    plain = _NOT_PLAIN.sub("_", name)
    value = f'attachment; filename="{plain}"'
    if plain != name:
        value += f"; filename*=UTF-8''{quote(name, safe=_PLAIN)}"
    return b"content-disposition", value.encode()
