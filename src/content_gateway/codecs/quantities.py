"""Times and sizes as people write them: `90d`, `1.5s`, `64GiB`; read, and spelt so that they can be
read again.

Knows units only: a time is a number of seconds, a size a whole number of bytes. What either may be
at most is left to whoever asks."""

import re
from decimal import Decimal
from typing import Final

# No unit is a part of two: `m` is minutes, `M` is nothing.
_SECONDS: Final = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400}
_BYTES: Final[dict[str, int]] = {
    "B": 1,
    **{f"{letter}iB": 1024**power for power, letter in enumerate("KMGT", 1)},
    **{f"{letter}B": 1000**power for power, letter in enumerate("kMGT", 1)},
}
_QUANTITY: Final = re.compile(r"(\d{1,20}(?:\.\d{1,30})?) ?([A-Za-z]*)", re.ASCII)
_TIME_FORM: Final = (
    "must be a number of seconds, or a number and ms, s, m (minutes), h or d, as 500ms or 90d"
)
_SIZE_FORM: Final = (
    "must be a number of bytes, or a number and KiB, MiB, GiB or TiB (of 1024), kB, MB, GB or TB"
    " (of 1000), as 64GiB"
)


def parse_seconds(text: str) -> float:
    """The seconds that *text* says, `1.5s` or a bare number; ValueError says what it must be."""
    number, unit = _split(text, _TIME_FORM)
    if not unit:
        return float(number)
    if unit == "ms":
        return float(number) / 1000  # the nearest to what was written, which a product is not
    if unit not in _SECONDS:
        raise ValueError(_TIME_FORM)
    return float(number) * _SECONDS[unit]


def parse_bytes(text: str) -> int:
    """The bytes that *text* says, `64GiB` or a bare number; ValueError says what it must be."""
    number, unit = _split(text, _SIZE_FORM)
    if (unit or "B") not in _BYTES:
        raise ValueError(_SIZE_FORM)
    whole, _, fraction = number.partition(".")
    scale: int = 10 ** len(fraction)
    size, rest = divmod(int(whole + fraction) * _BYTES[unit or "B"], scale)
    if rest:
        raise ValueError("must be a whole number of bytes")
    return size


def spell_seconds(seconds: float) -> str:
    """*seconds*, 0 or from a nanosecond on, as `parse_seconds` reads exactly them."""
    if float(seconds).is_integer():
        whole = int(seconds)
        unit = next((unit for unit in "dhm" if whole and not whole % _SECONDS[unit]), "s")
        return f"{whole // int(_SECONDS[unit])}{unit}"
    thousandths = round(seconds * 1000)
    if seconds < 1 and thousandths / 1000 == seconds:
        return f"{thousandths}ms"
    return f"{Decimal(repr(seconds)):f}s"  # the shortest number, without an exponent


def spell_bytes(size: int) -> str:
    """*size*, not negative, as `parse_bytes` reads it."""
    fits = [unit for unit, one in _BYTES.items() if unit.endswith("iB") and not size % one]
    unit = fits[-1] if fits and size else "B"
    return f"{size // _BYTES[unit]}{unit}"


def _split(text: str, form: str) -> tuple[str, str]:
    found = _QUANTITY.fullmatch(text.strip())
    if found is None:
        raise ValueError(form)
    return found[1], found[2]
