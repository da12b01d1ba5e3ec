"""What the cloud knows about a lease, and which of its faults are worth another try.

Only transient, authentication and network faults become CloudServiceError. Whatever else goes wrong is a
bug, here or there: it is left as it is, so that the task fails at once and somebody sees it.
"""

from __future__ import annotations

import json
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote
from urllib.request import Request, urlopen

from django.conf import settings

AUTHENTICATION = frozenset({401, 403})
TRANSIENT = frozenset({408, 425, 429, 500, 502, 503, 504})


class CloudServiceError(Exception):
    """The cloud is away, busy, or does not accept us just now: the same call may succeed later."""


def find_directory(number: str, user_id: int) -> str:
    """The folder of a lease."""
    return str(_get(f"leases/{quote(number)}/directory", user_id)["path"])


def find_reports(number: str, user_id: int) -> list[str]:
    """Reports that were made before."""
    return [str(name) for name in _get(f"leases/{quote(number)}/reports", user_id)["names"]]


def find_runsheet(number: str, user_id: int) -> str:
    """The runsheet of a lease."""
    return str(_get(f"leases/{quote(number)}/runsheet", user_id)["path"])


def _get(path: str, user_id: int) -> Any:
    request = Request(f"{settings.ORDERS_CLOUD_URL}/{path}", headers={"X-User": str(user_id)})
    try:
        with urlopen(request, timeout=settings.ORDERS_CLOUD_TIMEOUT) as answer:
            text = answer.read()
    except HTTPError as error:
        if error.code in AUTHENTICATION | TRANSIENT:
            raise CloudServiceError(f"{path}: the cloud answered {error.code}") from error
        raise
    except (URLError, HTTPException, OSError) as error:  # refused, reset, timed out, cut off in mid-answer
        raise CloudServiceError(f"{path}: the cloud cannot be reached: {error}") from error
    return json.loads(text)
