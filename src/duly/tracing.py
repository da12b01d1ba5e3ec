"""Traces: from whoever asks for work, through the store, to the run that does it.

Nothing here imports OpenTelemetry. A process that has not loaded and configured it pays one look at a
dictionary per request and per run; one that has gets spans by the conventions for messaging.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeVar, cast

from duly.context import CARRIED
from duly.errors import ConditionFailed
from duly.job import Claim, Request
from duly.version import __version__

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.metrics import Counter as CounterInstrument
    from opentelemetry.metrics import Histogram, Meter
    from opentelemetry.trace import Link, Span, Tracer

SCOPE: Final = "duly"
TRACES: Final = "opentelemetry.trace"
METRICS: Final = "opentelemetry.metrics._internal"
SYSTEM: Final = {"messaging.system": "duly"}
ENQUEUE: Final = {"messaging.operation.name": "enqueue", "messaging.operation.type": "send"}
RUN: Final = {"messaging.operation.name": "run", "messaging.operation.type": "process"}

Facts = Mapping[str, str | int | float | bool]


class Answer(Protocol):
    """What became of a request; the store's own type has more to say."""

    @property
    def decision(self) -> str: ...


A = TypeVar("A", bound=Answer)


# --- whether anybody looks ------------------------------------------------------------------------


def tracer() -> Tracer | None:
    """Where spans begin; None as long as nobody in this process has set up tracing."""
    provider = _provider(TRACES, "_TRACER_PROVIDER", "get_tracer_provider")
    return None if provider is None else _tracer_of(provider)


def meter() -> Meter | None:
    """Where instruments are made; None as long as nobody in this process has set up metrics."""
    provider = _provider(METRICS, "_METER_PROVIDER", "get_meter_provider")
    return None if provider is None else _meter_of(provider)


def is_wanted() -> bool:
    """Whether a span or a measurement would reach anybody."""
    is_loaded = TRACES in sys.modules or METRICS in sys.modules
    return is_loaded and (tracer() is not None or meter() is not None)


@lru_cache(maxsize=1)
def _tracer_of(provider: Any) -> Tracer:
    return cast("Tracer", provider.get_tracer(SCOPE, __version__))


@lru_cache(maxsize=1)
def _meter_of(provider: Any) -> Meter:
    return cast("Meter", provider.get_meter(SCOPE, __version__))


def _provider(module: str, kept: str, ask: str) -> Any:
    """The provider somebody has set; those that the interface brings itself do nothing.

    Asking the interface for it takes microseconds, which every request and run would pay. So we look where it
    is kept, and ask where it is not kept there, or where a variable names one that is only made when asked.
    """
    api = sys.modules.get(module)
    if api is None:
        return None
    found = getattr(api, ask)() if _is_named() or kept not in vars(api) else vars(api)[kept]
    if found is None or _is_refused():
        return None
    is_idle = type(found).__module__.startswith(("opentelemetry.trace", "opentelemetry.metrics"))
    return None if is_idle else found


@cache
def _is_named() -> bool:
    """Whether a provider may come from a variable."""
    return any(f"OTEL_PYTHON_{what}_PROVIDER" in os.environ for what in ("TRACER", "METER"))


@cache
def _is_refused() -> bool:
    """By the variable with which every instrumentation for Python is refused."""
    names = os.environ.get("OTEL_PYTHON_DISABLED_INSTRUMENTATIONS", "").split(",")
    return bool({"duly", "*"} & {name.strip() for name in names})


# --- asking ---------------------------------------------------------------------------------------


class Sending:
    """Requests on their way to the store, each carrying the trace they are part of."""

    def __init__(self, span: Span, requests: Sequence[Request]) -> None:
        self._span = span
        self.requests = carrying(requests, carrier())

    def answered(self, answers: list[A]) -> list[A]:
        """What the store said."""
        if len(answers) == 1:
            self._span.set_attribute("duly.decision", str(answers[0].decision))
        return answers


@contextmanager
def sending(requests: Sequence[Request]) -> Generator[Sending]:
    """One span for one write, of however many requests: a batch of thousands must not become thousands."""
    from opentelemetry import trace

    begin = (tracer() or trace.NoOpTracer()).start_as_current_span
    facts = _facts_of(requests)
    with _measured(requests), begin(_title(requests), kind=trace.SpanKind.PRODUCER, attributes=facts) as span:
        try:
            yield Sending(span, requests)
        except BaseException as error:
            span.set_attribute("error.type", type(error).__qualname__)
            raise


def _title(requests: Sequence[Request]) -> str:
    tasks = {request.task for request in requests}
    return f"enqueue {tasks.pop()}" if len(tasks) == 1 else "enqueue"


def _facts_of(requests: Sequence[Request]) -> Facts:
    facts: dict[str, str | int] = {**SYSTEM, **ENQUEUE}
    queues = {request.queue for request in requests}
    if len(queues) == 1:
        facts["messaging.destination.name"] = queues.pop()
    if len(requests) != 1:
        return {**facts, "messaging.batch.message_count": len(requests)}
    request = requests[0]
    return {**facts, "messaging.message.id": request.id, **_job_facts(request.task, request.key)}


def _job_facts(task: str, key: str | None) -> dict[str, str]:
    return {"duly.task": task} if key is None else {"duly.task": task, "duly.key": key}


@contextmanager
def _measured(requests: Sequence[Request]) -> Generator[None]:
    if meter() is None:
        yield
        return
    began, failure = time.monotonic(), dict[str, str]()
    try:
        yield
    except BaseException as error:
        failure = {"error.type": type(error).__qualname__}
        raise
    finally:
        took, instruments = time.monotonic() - began, sending_instruments()
        for (queue, task), number in Counter((request.queue, request.task) for request in requests).items():
            facts = {**SYSTEM, **ENQUEUE, "messaging.destination.name": queue, "duly.task": task, **failure}
            instruments.sent.add(number, facts)
            instruments.took.record(took, facts)


class Instruments(NamedTuple):
    """What is measured where work is asked for."""

    sent: CounterInstrument
    took: Histogram


@cache
def sending_instruments() -> Instruments:
    """Made once: the provider of a process is set once."""
    found = meter()
    assert found is not None
    return Instruments(
        found.create_counter("messaging.client.sent.messages", "{message}", "Requests written to the store."),
        found.create_histogram("messaging.client.operation.duration", "s", "How long writing them took."),
    )


# --- carrying -------------------------------------------------------------------------------------


def carrier() -> dict[str, str]:
    """The trace that is current here, as headers: `traceparent` and what else the process propagates."""
    from opentelemetry import propagate

    found: dict[str, str] = {}
    propagate.inject(found)
    return found


def carrying(requests: Sequence[Request], headers: Mapping[str, str]) -> list[Request]:
    """The requests with the headers in their context."""
    if not headers:
        return list(requests)
    written = {request.context: "" for request in requests}
    for text in written:
        written[text] = json.dumps({**json.loads(text), CARRIED: dict(headers)})
    return [replace(request, context=written[request.context]) for request in requests]


def headers_of(context: str) -> dict[str, str]:
    """The headers in a job's context; what cannot be read is nothing."""
    if CARRIED not in context:
        return {}
    try:
        found = json.loads(context)[CARRIED]
    except (ValueError, KeyError, TypeError):
        return {}
    return cast(dict[str, str], found) if isinstance(found, dict) else {}


# --- running --------------------------------------------------------------------------------------


class RunSpan:
    """The span of one run, current while its body runs."""

    def __init__(self, span: Span, asked: Context | None) -> None:
        from opentelemetry import context, trace

        self._span = span
        self._token = context.attach(trace.set_span_in_context(span, asked))

    def failed(self, error: BaseException) -> None:
        """The body raised. To skip is no error, and who was stopped from outside did nothing wrong."""
        from opentelemetry.trace import Status, StatusCode

        if isinstance(error, ConditionFailed):
            self._span.set_attribute("duly.skipped", True)  # noqa: FBT003 - positional only
            return
        self._span.set_attribute("error.type", type(error).__qualname__)
        if not isinstance(error, asyncio.CancelledError):
            self._span.record_exception(error)
            self._span.set_status(Status(StatusCode.ERROR, _said(error)))

    def end(self) -> None:
        """The body is over."""
        from opentelemetry import context

        context.detach(self._token)
        self._span.end()


def is_traced() -> bool:
    """False where nobody could trace. One look, before anything else: every run comes by here."""
    return TRACES in sys.modules


def begin_run(claim: Claim) -> RunSpan | None:
    """A span for a run; None where nobody traces.

    Every try of a request is a child of the span that asked for it. A later cycle of the same job, next year
    perhaps, begins a trace of its own with a link to that span: no trace goes on for ever.
    """
    if not is_traced():
        return None
    begun = _begin(claim)
    return None if begun is None else RunSpan(*begun)


class Begun(NamedTuple):
    """A span, and the context its request was made in."""

    span: Span
    asked: Context | None


def _begin(claim: Claim, started_at: datetime | None = None) -> Begun | None:
    found = tracer()
    if found is None:
        return None
    from opentelemetry import context, propagate, trace

    headers = headers_of(claim.context)
    asked = propagate.extract(headers) if headers else None
    is_later = asked is not None and claim.cycle > 0
    span = found.start_span(
        f"run {claim.task}",
        context=context.Context() if is_later else asked,
        kind=trace.SpanKind.CONSUMER,
        attributes=_run_facts(claim),
        links=_links(asked) if is_later else None,
        start_time=None if started_at is None else int(started_at.timestamp() * 1_000_000_000),
    )
    return Begun(span, asked)


def record_killed(claim: Claim, started_at: datetime, reason: str) -> None:
    """The span of a run whose process was killed, and its own span with it: told by the one who saw it."""
    span = _begin(claim, started_at)
    if span is not None:
        from opentelemetry.trace import Status, StatusCode

        span.span.set_attribute("error.type", "killed")
        span.span.set_status(Status(StatusCode.ERROR, reason))
        span.span.end()


def _links(asked: Context | None) -> list[Link]:
    from opentelemetry import trace

    origin = trace.get_current_span(asked).get_span_context()
    return [trace.Link(origin)] if origin.is_valid else []


def _run_facts(claim: Claim) -> Facts:
    return {
        **SYSTEM,
        **RUN,
        "messaging.destination.name": claim.queue,
        "messaging.message.id": claim.id,
        **_job_facts(claim.task, claim.key),
        "duly.attempt": claim.attempt + 1,
        "duly.epoch": claim.epoch,
        "duly.cycle": claim.cycle,
    }


def _said(error: BaseException) -> str:
    try:
        return f"{type(error).__qualname__}: {error}"
    except Exception:
        return type(error).__qualname__


def current_ids() -> dict[str, str]:
    """`trace_id` and `span_id` as logs carry them; nothing where nobody traces."""
    if tracer() is None:
        return {}
    from opentelemetry import trace

    found = trace.get_current_span().get_span_context()
    if not found.is_valid:
        return {}
    return {"trace_id": trace.format_trace_id(found.trace_id), "span_id": trace.format_span_id(found.span_id)}


# --- child processes ------------------------------------------------------------------------------

_flushing = threading.Lock()


def flush(patience: float) -> None:
    """Send what is recorded, as far as that takes no longer: a child process is ended by a kill."""
    if tracer() is not None and _flushing.acquire(blocking=False):
        thread = threading.Thread(target=_flush, name="duly-flush", daemon=True)
        thread.start()
        thread.join(patience)


def _flush() -> None:
    try:
        from opentelemetry import trace

        act = getattr(trace.get_tracer_provider(), "force_flush", None)
        if callable(act):
            act()
    finally:
        _flushing.release()
