"""`OnCelery`: where tasks are declared as in Duly and run by Celery."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, NoReturn, TypeVar

from kombu.exceptions import OperationalError

from duly import codec, tracing
from duly.app import AnyTask, App
from duly.errors import BadRequest, DefinitionError, StoreUnavailable
from duly.handle import Handle
from duly.integrations.celery.declaring import celery_options
from duly.integrations.celery.guards import Answer, Guards, redis_url
from duly.integrations.celery.packet import Packet
from duly.integrations.celery.performing import Delivery
from duly.integrations.celery.sent import Sent
from duly.job import Clash, Decision, Overlap, Request
from duly.ledger import HandOver, Ledger
from duly.options import TaskOptions, read_options
from duly.stores.callers import is_djangos
from duly.stores.contract import Placed
from duly.task import Task

log = logging.getLogger("duly.celery")

T = TypeVar("T")

DECISIONS = {
    "send": Decision.CREATED,
    "trail": Decision.CREATED,
    "merge": Decision.KEPT,
    "drop": Decision.KEPT,
}


class OnCelery(App):
    """Tasks that a Celery application carries. `app.task`, `enqueue` and `using` are those of Duly.

    `guards` is the Redis that holds the windows of `unique_for` and counts deaths; by default the broker, if
    that is a Redis. With a `ledger`, requests for guarded functions that name a connection leave as receipts.
    """

    def __init__(
        self,
        celery: Any,
        *,
        guards: str | None = None,
        namespace: str = "duly",
        ledger: Ledger | None = None,
    ) -> None:
        super().__init__("memory://", namespace=namespace)
        self.refuse_store(
            "These tasks are on Celery, which keeps no jobs. Ask Celery: `celery inspect`, Flower."
        )
        self.celery = celery
        self._guards_given = guards
        self._guards: Guards | None = None
        self._carriers: dict[str, Any] = {}
        self.ledger = ledger
        if ledger is not None:
            ledger.hand_over(self._hand_over)

    def __repr__(self) -> str:
        return f"<OnCelery {self.celery.main} with {len(self.tasks)} tasks>"

    @property
    def guards(self) -> Guards | None:
        """Where windows and deaths are noted; None where there is no Redis."""
        if self._guards is None:
            url = redis_url(self._guards_given or str(self.celery.conf.broker_url or ""))
            self._guards = None if url is None else Guards(url, self.settings.namespace)
        return self._guards

    # defining

    def _add(self, function: Callable[..., Any], given: TaskOptions, **kinds: Any) -> AnyTask:
        if any(kind is not None for kind in kinds.values()):
            raise DefinitionError(
                "Celery runs one-off tasks: perpetual and reactive ones need a worker of Duly's."
            )
        options = celery_options(read_options(function, given))  # first: what is refused stays unknown
        task = super()._add(function, given)

        def perform(carrier: Any, packet: dict[str, Any]) -> Any:
            return Delivery(carrier, task, self.guards, Packet.read(packet, carrier.request.id)).perform()

        perform.__doc__ = function.__doc__
        self._carriers[task.name] = self.celery.task(perform, bind=True, shared=False, **options)
        return task

    def schedule(self, **options: Any) -> NoReturn:
        """Schedules are beat's there."""
        raise DefinitionError(
            "Celery's schedules are beat's: name the task in beat_schedule with "
            "kwargs=app.message(task, …), or run schedules with Duly."
        )

    def message(self, task: AnyTask, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """The kwargs under which Celery can call a task by itself: for beat and `send_task`."""
        task.bind(args, kwargs)
        packed = codec.pack(args, kwargs, cap=self.argument_cap)
        return {"packet": {"id": "", "arguments": packed, "due": self.clock.now().isoformat()}}

    # asking

    def place(self, requests: Sequence[Request], connection: Any) -> list[Placed]:
        """Send what the guards let through; with a connection, once it commits."""
        for request in requests:
            _check(request, has_guards=self.guards is not None)
        if not tracing.is_wanted():
            return self._place(requests, connection)
        with tracing.sending(requests) as sending:
            return sending.answered(self._place(sending.requests, connection))

    def _place(self, requests: Sequence[Request], connection: Any) -> list[Placed]:
        if connection is None:
            return [self._send(request) for request in requests]
        return [self._leave_with(connection, request) for request in requests]

    async def aplace(self, requests: Sequence[Request], connection: Any) -> list[Placed]:
        """The same in a thread: Celery has no async side."""
        if connection is not None:
            raise BadRequest("On Celery, using(connection=…) is for code that is not async.")
        return await asyncio.to_thread(self.place, requests, None)

    def handles(self, task: Task[..., Any, T], request: Request, placed: Sequence[Placed]) -> list[Handle[T]]:
        """What the caller of enqueue gets, for requests of one kind."""
        key, keeps = request.key, task.options.keep_result is not None
        return [Sent(self.celery, each.id, key, each.decision, keeps_result=keeps) for each in placed]

    def _send(self, request: Request) -> Placed:
        answer = self._asked(request)
        if answer.decision in ("send", "trail"):
            self._publish(request, answer)
        return Placed(answer.id, 0, DECISIONS[answer.decision])

    def _asked(self, request: Request) -> Answer:
        if request.guard is None or self.guards is None:
            return Answer("send", request.id, timedelta(0))
        return self.guards.ask(request.id, str(request.lane_of_serial), request.guard, request.arguments)

    def _publish(self, request: Request, answer: Answer) -> None:
        packet = Packet.of(request, self.clock.now(), is_trailing=answer.decision == "trail")
        try:
            self._carriers[request.task].apply_async(
                kwargs={"packet": packet.written()},
                kwargsrepr=packet.shown(self.tasks[request.task].options),
                task_id=request.id,
                retry=False,  # the caller of enqueue is told, at once, and decides
                **self._routing(request, answer.wait),
            )
        except (OperationalError, OSError) as error:
            self._withdraw(request)
            raise StoreUnavailable(f"Celery's broker did not take {request.task}: {error}") from error

    def _routing(self, request: Request, wait: timedelta) -> dict[str, Any]:
        now = self.clock.now()
        due = max(request.run_after or now, now + max(wait, request.delay or timedelta(0)))
        words: dict[str, Any] = {} if due <= now else {"eta": due}
        if request.queue != "default":  # which Celery may call otherwise: task_default_queue
            words["queue"] = request.queue
        if request.expires_after is not None:
            words["expires"] = now + request.expires_after
        return words

    def _withdraw(self, request: Request) -> None:
        """A guard left behind would hold back the next request for work that nobody has."""
        if request.guard is None or self.guards is None:
            return
        try:
            self.guards.withdraw(request.id, str(request.lane_of_serial))
        except StoreUnavailable as error:
            log.warning("the guard of %s stays until its window ends: %s", request.lane_of_serial, error)

    # in the caller's transaction

    def _leave_with(self, connection: Any, request: Request) -> Placed:
        name = getattr(self.tasks[request.task].function, "receipt_name", None)
        if self.ledger is not None and name is not None:
            return self._issue(self.ledger, name, connection, request)
        if not is_djangos(connection):
            raise BadRequest(
                f"{request.task}: Celery's broker cannot join this transaction, and only Django tells us "
                "when it commits. Guard the function by @exactly_once(ledger=…) and give OnCelery the ledger."
            )
        connection.on_commit(partial(self._send_committed, request), robust=True)
        return Placed(request.id, 0, Decision.PENDING)

    def _issue(self, ledger: Ledger, name: str, connection: Any, request: Request) -> Placed:
        """A row in the transaction: what the commit could not hand over, the ledger's sweep does."""
        args, kwargs = codec.unpack(request.arguments)
        issued = ledger.issue(name, args, kwargs, execution_id=request.id, connection=connection)
        if is_djangos(connection):
            connection.on_commit(partial(ledger.deliver, issued.id), robust=True)
        return Placed(issued.id, 0, Decision.PENDING)

    def _send_committed(self, request: Request) -> None:
        """The change stands already; what failed here can only be told."""
        try:
            self._send(request)
        except StoreUnavailable as error:
            log.error("a change was committed whose request for %s is lost: %s", request.task, error)

    def _hand_over(self, order: HandOver) -> None:
        """How a receipt of the ledger reaches a worker."""
        task = self._task_of(order.name)
        kwargs: Mapping[str, Any] = {**order.kwargs, "execution_id": order.id}
        task.enqueue(*order.args, **kwargs)

    def _task_of(self, receipt: str) -> AnyTask:
        for task in self.tasks.values():
            if getattr(task.function, "receipt_name", None) == receipt:
                return task
        raise DefinitionError(f"No task of {self!r} is guarded by receipts for {receipt!r}.")


def _check(request: Request, *, has_guards: bool) -> None:
    """What the request asks for that nobody would keep."""
    if request.clash is Clash.REPLACE:
        raise BadRequest(f"{request.task}: Celery cannot replace a message that was sent.")
    if request.key is not None and request.guard is None:
        raise BadRequest(
            f"{request.task}: on Celery a key is only the name of a guard. Give unique_for='…', or no key."
        )
    if request.priority != 0 or request.overlap is not Overlap.QUEUE_ONE:
        raise BadRequest(f"{request.task}: Celery keeps neither priorities nor overlap policies of Duly's.")
    if request.guard is not None and not has_guards:
        raise BadRequest(
            f"{request.task}: unique_for needs a Redis. Say where: OnCelery(celery, guards='redis://…')."
        )
