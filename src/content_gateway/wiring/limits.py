"""The part of the composition root that says what each key may use: settings to allowances.

Knows the groups `limits` and `limits.types`; counting is left to http/key_limits.py."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from difflib import get_close_matches

import structlog

from content_gateway.api_keys import KeyRecord
from content_gateway.errors import WrongSettings
from content_gateway.model.allowance import ALL, LIMITS, Allowance
from content_gateway.settings.groups import KeyTypeSettings, LimitSettings

log = structlog.get_logger(__name__)


def default_allowance(chosen: LimitSettings) -> Allowance:
    """What a key without a type may use."""
    return Allowance(**{name: getattr(chosen, name) for name in LIMITS})


def typed_allowances(chosen: LimitSettings) -> dict[str, Allowance]:
    """What keys of each type may use, without limits of their own."""
    default = default_allowance(chosen)
    return {name: _of_type(default, one) for name, one in chosen.types.items()}


def allowances(chosen: LimitSettings) -> Callable[[KeyRecord], Allowance]:
    """What a key may use. One whose type is not in the settings may do nothing but ask GET /key,
    and be refused, as often as the limits of all keys allow."""
    default, typed = default_allowance(chosen), typed_allowances(chosen)
    nothing = replace(default, operations=frozenset())

    def allowance_of(record: KeyRecord) -> Allowance:
        whole = default if record.type is None else typed.get(record.type, nothing)
        return whole.narrowed(record.limits) if record.limits else whole

    return allowance_of


def check_operations(chosen: LimitSettings, described: Collection[str]) -> None:
    """Raises WrongSettings where a type grants an operation that is not *described*."""
    wrong = []
    for name, one in chosen.types.items():
        for operation in one.operations:
            if operation != ALL and operation not in described:
                near = get_close_matches(operation, described, n=1)
                meant = f"; did you mean {near[0]}?" if near else ""
                wrong.append(
                    f"limits.types.{name}.operations: there is no operation {operation}{meant}"
                )
    if wrong:
        raise WrongSettings("\n".join(wrong))


def warn_of_unknown_types(chosen: LimitSettings, keys: Iterable[KeyRecord]) -> None:
    """Log the types that keys in use have and the settings have not."""
    used = [key.type for key in keys if key.type is not None and key.revoked_at is None]
    for name in sorted(set(used) - set(chosen.types)):
        log.warning("keys have a type that no setting knows", type=name, keys=used.count(name))


def _of_type(default: Allowance, chosen: KeyTypeSettings) -> Allowance:
    given = {name: limit for name in LIMITS if (limit := getattr(chosen, name)) is not None}
    return replace(default, **given, operations=frozenset(chosen.operations))
