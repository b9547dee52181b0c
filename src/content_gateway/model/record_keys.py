"""Record keys: which records of a name are wanted beside its wallet and its content.

Knows how they are written, `text.KEY` (ENSIP-5) and `addr.COIN` (ENSIP-9), and bounds them. What a
name holds under them is left to `names/`."""

from dataclasses import dataclass
from typing import Final

from content_gateway.errors import InvalidCoinType, InvalidQuery
from content_gateway.model.wallet import CoinType, parse_coin_type

MAX_RECORDS: Final = 20  # at once: each is a call of the resolver, and may be one of a gateway
MAX_KEY_BYTES: Final = 255
_TEXT, _ADDR = "text.", "addr."


@dataclass(frozen=True, slots=True, order=True)
class RecordKey:
    """One record, as it is written in *text*; *coin* is the coin type of an address."""

    text: str
    coin: CoinType | None = None

    @classmethod
    def parse(cls, text: str) -> "RecordKey":
        """The key that *text* is, in its one spelling; raises InvalidQuery."""
        if text.startswith(_ADDR):
            return cls(text, _coin(text.removeprefix(_ADDR)))
        key = text.removeprefix(_TEXT)
        if not text.startswith(_TEXT) or not key:
            raise InvalidQuery("records takes text.KEY and addr.COIN, separated by commas.")
        if len(key.encode(errors="surrogatepass")) > MAX_KEY_BYTES:
            raise InvalidQuery(f"records: the key of a text has {MAX_KEY_BYTES} bytes at most.")
        if not key.isprintable():
            raise InvalidQuery("records: the key of a text has characters that cannot be shown.")
        return cls(text)

    @property
    def text_key(self) -> str:
        """The key of a text record."""
        return self.text.removeprefix(_TEXT)


def parse_record_keys(text: str) -> tuple[RecordKey, ...]:
    """The keys in the comma separated *text*, each once, in one order; raises InvalidQuery."""
    keys = {RecordKey.parse(one) for one in text.split(",", MAX_RECORDS)}
    if len(keys) > MAX_RECORDS:
        raise InvalidQuery(f"records takes {MAX_RECORDS} keys at most.")
    return tuple(sorted(keys))


def _coin(text: str) -> CoinType:
    try:
        coin = parse_coin_type(text)
    except InvalidCoinType as wrong:
        raise InvalidQuery(f"records: {wrong.detail}") from wrong
    if text != str(int(text)):
        raise InvalidQuery("records: a coin type has no leading zeros.")
    return coin
