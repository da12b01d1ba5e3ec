"""A one-off task: it ends when its body does, or when its policy gives up."""

from __future__ import annotations

from duly.kinds.outcome import Ended, Raised, Returned
from duly.lifecycle import Defer, Done, Fail, Skip, TryAgain, Verdict


def decide(ended: Ended) -> Verdict:
    """What a body's end means for its job."""
    held_back = put_off(ended)
    if held_back is not None:
        return held_back
    match ended.ending:
        case Returned(result=result):
            return Done(result, ended.options.keep_result)
        case Raised(error=error, skips=True):
            return Skip(error)
        case Raised(error=error, retry_after=wait) if wait is not None:
            return TryAgain(wait, error)
        case Raised(error=error, reason=reason):
            return Fail(error, reason)


def put_off(ended: Ended) -> Verdict | None:
    """A deferral counts for more than how the body ended, up to its own limit."""
    wait = ended.effects.defers
    if wait is None:
        return None
    if ended.claim.deferrals >= ended.options.max_deferrals:
        limit = ended.options.max_deferrals
        return Fail(f"deferred {limit} times; max_deferrals allows no more", "deferred too often")
    return Defer(wait)
