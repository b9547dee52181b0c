"""`content-gateway audit`: what each key pinned, removed and was refused, and who did it.

Reads the log page by page, newest first; writing it is the business of the ledger."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import click
import msgspec

from content_gateway.cli import common
from content_gateway.cli.duration import Lifetime
from content_gateway.cli.requestor_names import RequestorNames
from content_gateway.cli.which_ledger import existing_ledger
from content_gateway.codecs.timestamps import rfc3339
from content_gateway.model.audit import AuditAction, AuditEntry, AuditSearch
from content_gateway.settings.sources import Loaded

_NONE: Final = "The audit log has no such entry."
_OFF: Final = "The audit log is off (audit.entries = 0)."


@click.group("audit", epilog="Example: content-gateway audit ls --key-name wallet-team")
def command() -> None:
    """Print the audit log."""


@command.command("ls", epilog="Example: content-gateway audit ls --since 7d --action refused")
@click.option("--key-name", metavar="NAME", help="Of this key only, as with `pin ls`.")
@click.option("--key-id", metavar="ID", help="Its id instead.")
@click.option("--since", type=Lifetime(), help="What happened in this time, as in 7d.")
@click.option(
    "--action",
    type=click.Choice([action.value for action in AuditAction]),
    help="Of this kind only.",
)
@common.ledger_options
@existing_ledger
def list_entries(
    *,
    key_name: str | None,
    key_id: str | None,
    since: timedelta | None,
    action: str | None,
    loaded: Loaded,
    as_json: bool,
) -> None:
    """Print the audit log, newest first: time, key, who did it, what, and of which CID.

    Refusals are counted: one line tells how many of a kind a key got in the hour from that time on.
    The log keeps its last `audit.entries` entries."""
    if key_name is not None and key_id is not None:
        raise click.UsageError("--key-name and --key-id do not go together.")
    search = AuditSearch(
        action=None if action is None else AuditAction(action),
        since=None if since is None else _before_now(since),
    )
    whose = common.Whose(None, key_name, key_id)
    shown = common.run(_list(loaded, whose, search, as_json=as_json))
    if not shown:
        click.echo(_NONE if loaded.settings.audit.entries else _OFF, err=True)


async def _list(loaded: Loaded, whose: common.Whose, search: AuditSearch, *, as_json: bool) -> int:
    """Print every entry that *search* finds; how many they were."""
    from content_gateway.wiring.keys import opened_tenants

    async with opened_tenants(loaded.settings) as tenants:
        if whose.key_name == common.OPERATOR:
            search = replace(search, requestor=common.OPERATOR)
        elif whose.key_name is not None or whose.key_id is not None:
            search = replace(search, requestor=(await common.issued_key(tenants.keys, whose)).id)
        names, shown = RequestorNames(await tenants.keys.all()), 0
        while entries := await tenants.ledger.search_audit(search):
            lines = [
                msgspec.json.encode(_as_json(entry, names)).decode()
                if as_json
                else _line(entry, names)
                for entry in entries
            ]
            if not (shown or as_json):
                lines.insert(0, _headings(names))
            click.echo("\n".join(lines))  # at once: every echo is a write
            shown += len(entries)
            search = replace(search, before=entries[-1].id)
        return shown


def _before_now(since: timedelta) -> datetime:
    now = datetime.now(UTC)
    return now - min(since, now - datetime.fromtimestamp(0, UTC))


def _headings(names: RequestorNames) -> str:
    return f"{'TIME':24}  {'KEY':{names.width}}  {'BY':8}  {'ACTION':7}  WHAT"


def _line(entry: AuditEntry, names: RequestorNames) -> str:
    detail = f"{entry.detail}, {entry.number:,} times" if _is_counted(entry) else entry.detail
    key = names.of(entry.requestor)
    return f"{rfc3339(entry.at)}  {key:{names.width}}  {_who(entry):8}  {entry.action:7}  {detail}"


def _as_json(entry: AuditEntry, names: RequestorNames) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "timestamp": rfc3339(entry.at),
        "key": names.of(entry.requestor),
        "keyId": entry.requestor,
        "by": _who(entry),
        "action": entry.action.value,
    }
    if _is_counted(entry):
        return shown | {"code": entry.detail, "count": entry.number}
    is_pin = entry.action in (AuditAction.PIN, AuditAction.UNPIN)
    return shown | {"cid" if is_pin else "detail": entry.detail}


def _who(entry: AuditEntry) -> str:
    is_operator = entry.is_operator or entry.requestor == common.OPERATOR
    return common.OPERATOR if is_operator else "key"


def _is_counted(entry: AuditEntry) -> bool:
    return entry.action is AuditAction.REFUSED
