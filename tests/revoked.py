"""Revoking a key by its name, as tests know their keys."""

from content_gateway.api_keys import IssuedKeys


async def revoke(keys: IssuedKeys, name: str) -> bool:
    """Whether the key *name* was there and is revoked now, and was not before."""
    record = await keys.named(name)
    return record is not None and await keys.revoke(record.id)
