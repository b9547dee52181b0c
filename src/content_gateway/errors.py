"""Everything that can go wrong, sorted by whose fault it is.

A `CallerError`'s request cannot be right; `NotFound` is what we looked for, and is not there; an
`UpstreamError` is somebody we depend on, and an `OwnFault` us.

Absence (NotFound) and outage (UpstreamError) are never confused: only absence lets a search
go on. Knows no HTTP; http/problems.py writes the words that people read."""


class GatewayError(Exception):
    """Base of every error this package raises on purpose.

    *detail* is one sentence for the person who asked; it never holds a secret."""

    def __init__(self, detail: str = "") -> None:
        super().__init__(detail)
        self.detail = detail


class CallerError(GatewayError):
    """The request cannot be right, whatever the world looks like."""


class InvalidDomain(CallerError):
    """The text is not a domain name that any name service could hold."""


class InvalidCid(CallerError):
    """The text is not a CID that can be pinned."""


class InvalidIpnsName(CallerError):
    """The text is neither an IPNS key nor a DNSLink name."""


class InvalidCoinType(CallerError):
    """The text is not a coin type whose addresses we can write."""


class InvalidAddress(CallerError):
    """The text is not an address of that coin type."""


class InvalidQuery(CallerError):
    """The query names a parameter that is not known, or gives one a value it cannot have."""


class InvalidCursor(CallerError):
    """The text is not a cursor that was given out with a page."""


class InvalidBody(CallerError):
    """The body is not what the operation takes."""


class UnexpectedBody(CallerError):
    """The request carries a body, and the operation has none."""


class KeyRefused(CallerError):
    """No key, or none that lets anybody in. *detail* says why, for the log only."""


class ScopeMissing(CallerError):
    """The key is good, but not for this operation."""


class PinLimitReached(CallerError):
    """The requestor has as many pins as it may have."""


class TooManyAtOnce(CallerError):
    """The requestor has as much under way as its own limit allows; others may go on."""


class Blocked(GatewayError):
    """The operator's denylist forbids serving this. *detail* says what kind of thing it is."""


class NotFound(GatewayError):
    """We looked, and there is nothing."""


class NameNotFound(NotFound):
    """No name service knows the name, or it holds neither wallet nor content."""


class PrimaryNameNotFound(NotFound):
    """The address has no primary name: none is set, or it does not lead back to the address."""


class TaskNotFound(NotFound):
    """No task has that id."""


class PinNotFound(NotFound):
    """The requestor holds no pin of that CID."""


class PathNotFound(NotFound):
    """The content was read, and it has nothing at that path that could be served."""


class UpstreamError(GatewayError):
    """A server we depend on failed us; nothing is known about what was asked."""


class UpstreamUnavailable(UpstreamError):
    """The server cannot be reached, or says itself that it cannot answer now."""


class UpstreamTimeout(UpstreamError):
    """The server did not answer within the deadline."""


class InvalidUpstreamResponse(UpstreamError):
    """The server answered, and the answer cannot be right."""


class AnswerTooLarge(InvalidUpstreamResponse):
    """The answer has more bytes than are read of one."""


class NoContract(InvalidUpstreamResponse):
    """An answer that only an address without code gives: the wrong one, or the wrong chain."""


class ResolverFailed(InvalidUpstreamResponse):
    """The name's own resolver, or the gateway that it names, refuses or gives what cannot be read.

    A fact about the name, of its owner's making: whoever asks again hears it again."""


class PinFailed(UpstreamError):
    """The pin backend has tried, and could not pin that content; *detail* says why."""


class PinDeferred(UpstreamError):
    """The pin backend is well, but did not take that content this time; *detail* says why."""


class ContentUnavailable(UpstreamError):
    """Nobody that we ask has a block of the content; somebody else may."""


class ContentMalformed(UpstreamError):
    """A block of the content is what its CID says, and is no part of a file or directory.

    A fact about the content, of its maker's making: whoever asks again hears it again."""


class SiteRulesMalformed(ContentMalformed):
    """The rules of a site for paths that are not there cannot be read."""


class OwnFault(GatewayError):
    """Something of ours is broken."""


class Overloaded(OwnFault):
    """More is asked of us than we do at once; this was refused before anybody else was asked."""


class StorageUnavailable(OwnFault):
    """The ledger cannot be read or written now; nothing is promised."""


class ContractBroken(OwnFault):
    """spec.yaml is missing, unreadable, or not an OpenAPI description."""


class WrongSettings(OwnFault):
    """The settings do not hold together; *detail* names every wrong one, one a line."""
