"""Tasks plus a store: where functions become tasks and requests become jobs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Concatenate, ParamSpec, TypeVar, Unpack, cast, overload

from duly import codec, context, holding, placing
from duly.audit import Audit
from duly.bundle import patterns
from duly.clock import Clock, SystemClock
from duly.converse import aconverse, converse
from duly.declaring import Decorate
from duly.durations import Duration, duration
from duly.errors import (
    DefinitionError,
    DuplicateTask,
    UnknownTask,
    WrongSignature,
)
from duly.events import Events
from duly.failures import Failures
from duly.handle import Handle, Origin
from duly.homes import calling_module, written_at
from duly.job import Decision, Delivery, Job, Request
from duly.jobs import Jobs, Pace
from duly.kinds import periodic, reactive
from duly.kinds.periodic import Schedule, ScheduleOptions, Terms
from duly.kinds.perpetual import Cycle
from duly.lock import Lock
from duly.options import TaskOptions, checked_name, read_options
from duly.outbox.contract import Outbox
from duly.premises import Premises
from duly.pulse import Pulse
from duly.reactions import Reactions
from duly.reactive.reaction import Reaction
from duly.run import Run
from duly.schedules import Desk as ScheduleDesk
from duly.schedules import Schedules, plain_terms
from duly.settings import Settings, load
from duly.stores.contract import Placed, Store
from duly.task import Task
from duly.ticker import tick_request
from duly.transactions import check_store
from duly.urls import masked

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

AnyTask = Task[..., Any, Any]


class App:
    """Tasks, schedules and the store they live in."""

    def __init__(
        self,
        url: str | None = None,
        *,
        clock: Clock | None = None,
        transactions: Any = None,
        **options: Any,
    ) -> None:
        self.settings: Settings = load({"url": url, **options})
        self.transactions = transactions
        """Where exactly-once bodies get their transactions, if not from Duly."""
        self.clock: Clock = clock or SystemClock()
        self.tasks: dict[str, AnyTask] = {}
        self.schedule_terms: dict[str, Terms] = {}
        self.premises = Premises(self.settings, self.clock)
        self.events = Events()
        self.jobs = Jobs(lambda: self.store)
        self.failures = Failures(lambda: self.store)
        self.audit = Audit(lambda: self.store)
        self.pulse = Pulse(lambda: self.store, lambda: self.clock)
        self.reactions = Reactions(lambda: self.store, lambda: self.jobs)
        self.schedules = Schedules(self._schedule_desk())

    def __repr__(self) -> str:
        return f"<Duly {masked(self.settings.url)} with {len(self.tasks)} tasks>"

    @property
    def store(self) -> Store:
        """The store, opened at first use."""
        return self.premises.store

    @property
    def outbox(self) -> Outbox | None:
        """Where requests in a caller's transaction wait for a relay, if there is one; opened at first use."""
        return self.premises.outbox

    def open(self) -> None:
        """Open the store now, not at first use: to fail early, or before a transaction of one's own."""
        self.premises.open()

    def refuse_store(self, reason: str) -> None:
        """In a process where the store cannot be the real one, say so instead of opening another."""
        self.premises.refuse(reason)

    def close(self) -> None:
        """Close the connections of store and outbox; the next use opens them again."""
        self.premises.close()

    @contextmanager
    def standing_in(self, store: Store, clock: Clock) -> Generator[None, None, None]:
        """Another store and clock while the block lasts, for tests; afterwards all is as it was."""
        before = self.clock, self.jobs, self.schedules
        self.clock = clock
        self.schedules = Schedules(self._schedule_desk())
        try:
            with self.premises.standing_in(store):
                yield
        finally:
            self.clock, self.jobs, self.schedules = before

    # defining

    @overload
    def task(
        self, function: Callable[Concatenate[Run, P], Coroutine[Any, Any, T]], /
    ) -> Task[P, Coroutine[Any, Any, T], T]: ...
    @overload
    def task(self, function: Callable[Concatenate[Run, P], T], /) -> Task[P, T, T]: ...
    @overload
    def task(
        self, function: Callable[P, Coroutine[Any, Any, T]], /
    ) -> Task[P, Coroutine[Any, Any, T], T]: ...
    @overload
    def task(self, function: Callable[P, T], /) -> Task[P, T, T]: ...
    @overload
    def task(self, **options: Unpack[TaskOptions]) -> Decorate: ...
    def task(self, *function: Any, **options: Any) -> Any:
        """Make a function a task: `@app.task` or `@app.task(retry=…, hard_limit=…)`."""

        def decorate(function: Callable[..., Any]) -> AnyTask:
            return self._add(function, cast(TaskOptions, options))

        return decorate(*function) if function else decorate

    def perpetual(
        self, *, every: Duration, automatic: bool = False, **options: Unpack[TaskOptions]
    ) -> Decorate:
        """Make a function a task that runs again and again; `run.again()` says when, else `every`.

        A failed cycle is recorded and the next one comes; with on_failure="stop" it stays stopped.
        """
        stops = options.get("on_failure") == "stop"
        if stops:
            options.pop("on_failure")
        step = duration(every, what="every", allow_zero=False)
        cycle = Cycle(every=step, automatic=automatic, stops_on_failure=stops)

        def decorate(function: Callable[..., Any]) -> AnyTask:
            return self._add(function, options, cycle=cycle)

        return cast(Decorate, decorate)

    def react(self, **options: Any) -> Callable[[Callable[..., T]], Task[..., T, Any]]:
        """Run a function for every row of a table that matters, when it changes: `table=`, `key=`, `where=`,
        `watch=` and more, beside the options of a task. A parameter annotated `Change` is told which row.
        """

        def decorate(function: Callable[..., T]) -> Task[..., T, Any]:
            reaction, given = reactive.declared(function, options)
            return self._add(function, given, reaction=reaction)

        return decorate

    def schedule(self, **options: Unpack[ScheduleOptions]) -> Callable[[Task[P, R, T]], Task[P, R, T]]:
        """Run a task by itself: `cron=` and a `timezone=`, or `every=`. Goes above `@app.task`."""

        def decorate(task: Task[P, R, T]) -> Task[P, R, T]:
            if not isinstance(task, Task):
                raise DefinitionError(
                    f"@app.schedule goes above @app.task: it got {task!r}. Write\n"
                    "    @app.schedule(cron='0 2 * * *')\n    @app.task\n    def …"
                )
            self._add_schedule(task, options)
            return task

        return decorate

    def _add(
        self,
        function: Callable[..., Any],
        given: TaskOptions,
        *,
        cycle: Cycle | None = None,
        reaction: Reaction | None = None,
    ) -> AnyTask:
        if isinstance(function, Task):
            raise DefinitionError(f"{function!r} is a task already: decorate the function once.")
        if not callable(function):
            raise DefinitionError(f"@app.task takes a function, not {function!r}.")
        options = read_options(function, given)
        known = self.tasks.get(options.name)
        if known is not None and written_at(known.function) != written_at(function):
            raise DuplicateTask(options.name, written_at(known.function), written_at(function))
        origin = calling_module()
        task: AnyTask = Task(function, options, self, cycle=cycle, reaction=reaction, origin=origin)
        if cycle is not None and cycle.automatic:
            _check_needs_nothing(task)
        self.tasks[options.name] = task
        return task

    def _add_schedule(self, task: AnyTask, options: ScheduleOptions) -> None:
        words = dict(options)
        name = checked_name(words.pop("name", None) or task.name, "name")
        arguments = self._pack(task.name, options.get("args", ()), options.get("kwargs", {}))
        given = {word: value for word, value in words.items() if word not in ("args", "kwargs")}
        terms = plain_terms(
            {"overlap": str(task.options.overlap), **given, "task": task.name, "arguments": arguments}
        )
        periodic.read_terms(name, terms)
        if self.schedule_terms.setdefault(name, terms) != terms:
            raise DefinitionError(f"Two schedules are named {name!r}. Give one of them name='…'.")

    def get_task(self, name: str) -> AnyTask:
        """A registered task by name."""
        try:
            return self.tasks[name]
        except KeyError:
            raise UnknownTask(name, self.tasks) from None

    # asking

    @property
    def argument_cap(self) -> int:
        """The most bytes packed arguments may take."""
        return self.settings.argument_cap

    def travelling_context(self) -> str:
        """What `duly.bind` bound here."""
        return context.packed()

    def place(self, requests: Sequence[Request], connection: Any) -> list[Placed]:
        """Store requests, or leave them with the run that makes them for its own key."""
        self._check_promises(requests)
        return placing.place(self, requests, connection)

    async def aplace(self, requests: Sequence[Request], connection: Any) -> list[Placed]:
        """The async twin of place."""
        self._check_promises(requests)
        return await placing.aplace(self, requests, connection)

    def _check_promises(self, requests: Sequence[Request]) -> None:
        for request in patterns(requests):
            self.check_promise(request.delivery, request.task)

    def check_promise(self, delivery: Delivery, task: str) -> None:
        """Refuse what this store cannot promise."""
        if delivery is Delivery.EXACTLY_ONCE:
            check_store(self.premises.url, task)

    def handles(self, task: Task[..., Any, T], request: Request, placed: Sequence[Placed]) -> list[Handle[T]]:
        """What the caller of enqueue gets, for requests of one kind."""
        origin = Origin(self, request.key, keeps_result=task.options.keep_result is not None)
        return [Handle(origin, each) for each in placed]

    def get_result(self, job_id: str) -> Handle[Any]:
        """A handle on a job stored earlier, by anybody."""
        job = self.jobs.get(job_id)
        task = self.tasks.get(job.task)
        keeps = task is not None and task.options.keep_result is not None
        origin = Origin(self, job.key, keeps_result=keeps or job.result is not None)
        return Handle(origin, Placed(job.id, job.generation, Decision.KEPT))

    # holding

    def pause(
        self, *, task: str | AnyTask | None = None, queue: str | None = None, reason: str = "", by: str = ""
    ) -> None:
        """Hold a task or a queue: its work waits, nothing is dropped."""
        converse(self.store, holding.hold(self.store, holding.lane(task, queue), reason, by))

    async def apause(
        self, *, task: str | AnyTask | None = None, queue: str | None = None, reason: str = "", by: str = ""
    ) -> None:
        """The async twin of pause."""
        await aconverse(self.store, holding.hold(self.store, holding.lane(task, queue), reason, by))

    def resume(self, *, task: str | AnyTask | None = None, queue: str | None = None, by: str = "") -> bool:
        """Let a held task or queue go on; False if it was not held."""
        return converse(self.store, holding.free(self.store, holding.lane(task, queue), by))

    async def aresume(
        self, *, task: str | AnyTask | None = None, queue: str | None = None, by: str = ""
    ) -> bool:
        """The async twin of resume."""
        return await aconverse(self.store, holding.free(self.store, holding.lane(task, queue), by))

    def lock(self, name: str, ttl: Duration = "60s", wait: Duration = "3s") -> Lock:
        """One holder at a time over all processes; a context manager, sync and async."""
        return Lock(lambda: self.store, checked_name(name, "lock name"), ttl, wait)

    # what handles ask

    def look_up(self, job_id: str) -> Job | None:
        """One job, or None."""
        return placing.look_up(self, job_id)

    async def alook_up(self, job_id: str) -> Job | None:
        """The async twin of look_up."""
        return await placing.alook_up(self, job_id)

    def cancel_job(self, job_id: str) -> bool:
        """Whether the cancel took effect."""
        if self.jobs.cancel(job_id) or placing.withdraw(self, job_id):
            return True
        return self.outbox is not None and bool(self.jobs.cancel(job_id))  # it may just have arrived

    async def acancel_job(self, job_id: str) -> bool:
        """The async twin of cancel_job."""
        if await self.jobs.acancel(job_id):
            return True
        if self.outbox is None:
            return False
        return await asyncio.to_thread(placing.withdraw, self, job_id) or bool(
            await self.jobs.acancel(job_id)
        )

    def await_end(self, job_id: str, timeout: timedelta | None) -> Job | None:
        """Look until the job has finished; the last look when time is up."""
        pace = Pace(timeout)
        while (job := self.look_up(job_id)) is not None and job.finished_at is None:
            time.sleep(pace.next(job_id))
        return job

    async def aawait_end(self, job_id: str, timeout: timedelta | None) -> Job | None:
        """The async twin of await_end."""
        pace = Pace(timeout)
        while (job := await self.alook_up(job_id)) is not None and job.finished_at is None:
            await asyncio.sleep(pace.next(job_id))
        return job

    # schedules

    def _schedule_desk(self) -> ScheduleDesk:
        return ScheduleDesk(
            store=lambda: self.store,
            clock=self.clock,
            known=self.schedule_terms,
            tick_request=lambda schedule, tick: tick_request(self.get_task(schedule.task), schedule, tick),
            handle=self._tick_handle,
            pack_arguments=self._pack,
        )

    def _tick_handle(self, schedule: Schedule, request: Request, placed: Placed) -> Handle[Any]:
        (handle,) = self.handles(self.get_task(schedule.task), request, [placed])
        return handle

    def _pack(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
        task = self.get_task(name)
        task.bind(args, kwargs)
        return codec.pack(tuple(args), dict(kwargs), cap=self.argument_cap)


def _check_needs_nothing(task: AnyTask) -> None:
    try:
        task.bind((), {})
    except WrongSignature as error:
        raise DefinitionError(
            f"{error} With automatic=True nobody gives it arguments: let them have defaults, or enqueue it."
        ) from None
