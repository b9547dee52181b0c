"""What the operator decides of a ledger, whichever database it is in."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LedgerOptions:
    """Released contents are unpinned after *grace* seconds; *audit_entries* are kept, 0: none."""

    grace: float = 0.0
    audit_entries: int = 0
