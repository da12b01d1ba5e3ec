"""Every way a server can fail us, told as one sentence that names the server and the remedy.

Callers of the store meet `StoreUnavailable` and its relatives only; no message carries a password.
"""

from __future__ import annotations

from typing import Final

import redis
from redis import exceptions

from duly.errors import DulyError, StoreError, StoreRefused, StoreUnavailable

NEEDED: Final = (6, 2)

_TOLD: Final[dict[str, str]] = {
    "LOADING": "is loading its data after a start. Try again in a moment",
    "BUSY": "is busy with a script of somebody's. Wait, or end it with SCRIPT KILL",
    "READONLY": "is a read-only replica. Point the URL at the primary",
    "MASTERDOWN": "is a replica that lost its primary. Point the URL at the primary",
    "OOM": "has no memory left for new jobs. Raise maxmemory, or let workers finish and prune jobs",
    "MISCONF": "refuses writes because it cannot save to its disk. Look at its log and free some space",
    "NOREPLICAS": "refuses writes while too few replicas follow it. "
    "Start them, or lower min-replicas-to-write",
    "CLUSTERDOWN": "belongs to a cluster that is down. Repair the cluster",
    "TRYAGAIN": "is moving our keys to another node. Try again in a moment",
    "MOVED": "is a node of a cluster that does not hold our keys. Point the URL at the node that does",
    "ASK": "is moving our keys to another node. Try again in a moment",
    "NOAUTH": "wants a password. Put it into the URL: redis://:PASSWORD@HOST",
    "WRONGPASS": "does not accept this user and password. Correct them in the URL: redis://USER:PASSWORD@HOST",
    "NOPERM": "does not allow this user what Duly needs. "
    "Grant it: ACL SETUSER … ~{NAMESPACE}:* &{NAMESPACE}:* +@all -@admin",
    "UNKILLABLE": "is busy with a script that has written already. Wait until it ends",
}
_FOR_A_PERSON: Final = ("NOAUTH", "WRONGPASS", "NOPERM")
"""What stays as it is until somebody mends it: waiting would be in vain."""
_FOREIGN: Final = "WRONGTYPE"
_CLASSES: Final[dict[type[Exception], str]] = {
    exceptions.BusyLoadingError: "LOADING",
    exceptions.ReadOnlyError: "READONLY",
    exceptions.OutOfMemoryError: "OOM",
    exceptions.NoPermissionError: "NOPERM",
    exceptions.AuthenticationError: "WRONGPASS",
    exceptions.AuthenticationWrongNumberOfArgsError: "WRONGPASS",
}
"""Errors whose first word the driver cuts off."""


def code_of(error: BaseException) -> str:
    """The word that tells what the server means; the driver and scripts put words of their own around it."""
    text = str(error)
    if "Authentication required" in text:
        return "NOAUTH"
    for kind, code in _CLASSES.items():
        if isinstance(error, kind):
            return code
    first = text.split(None, 1)[0] if text else ""
    if first in _TOLD or first == _FOREIGN:
        return first
    return next((known for known in (*_TOLD, _FOREIGN) if f"-{known} " in text or f" {known} " in text), "")


def explained(error: Exception, shown: str, doing: str) -> Exception:
    """The error a caller should see. What Duly raised on purpose passes through."""
    if isinstance(error, DulyError) or not isinstance(error, (redis.RedisError, OSError)):
        return error
    code = code_of(error)
    if code in _TOLD:
        kind = StoreRefused if code in _FOR_A_PERSON else StoreUnavailable
        return kind(f"Redis at {shown} {_TOLD[code]} (while: {doing}).")
    if code == _FOREIGN:
        return StoreError(
            f"Redis at {shown} holds data of another application under Duly's names (while: {doing}). "
            "Choose another namespace=…, or another database number in the URL."
        )
    if isinstance(error, (exceptions.ConnectionError, exceptions.TimeoutError, OSError)):
        return StoreUnavailable(_unreached(error, shown, doing))
    return StoreError(
        f"Redis at {shown} refused to {doing}: {error}. This is a defect of Duly: please report it."
    )


def _unreached(error: Exception, shown: str, doing: str) -> str:
    if "No connection available" in str(error):
        return (
            f"All connections to Redis at {shown} are in use (while: {doing}). "
            "Use fewer threads at once, or try again."
        )
    if isinstance(error, exceptions.TimeoutError):
        return (
            f"Redis at {shown} did not answer in time (while: {doing}). "
            "Look whether it stalls, or allow more with ?timeout=30s in the URL."
        )
    return (
        f"Redis at {shown} cannot be reached: {_cause(error)} (while: {doing}). "
        "Start the server or correct the URL."
    )


def _cause(error: BaseException) -> str:
    """The reason without the address: drivers like to repeat it."""
    inner = error.__cause__ or error.__context__
    if isinstance(inner, OSError) and inner.strerror:
        return inner.strerror
    return str(error).rstrip(".") or type(error).__name__
