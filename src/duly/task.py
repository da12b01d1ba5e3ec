"""A Task is a value: a function, what it declares, and the way to ask for it.

Typed so that a checker sees the arguments of `enqueue` as those of the function, through every
option-setting call, with an injected Run taken out and a coroutine's result unwrapped.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import update_wrapper
from typing import Any, Final, Generic, ParamSpec, Protocol, TypeVar, Unpack

from duly import codec
from duly.bundle import Bundle, Later, at_hand
from duly.clock import SystemClock
from duly.durations import moment
from duly.errors import BadRequest, DefinitionError, WrongSignature
from duly.handle import Handle
from duly.ids import new_id, new_ids
from duly.job import Claim, Clash, Delivery, Guard, Overlap, Request
from duly.kinds.perpetual import Cycle
from duly.options import Options
from duly.reactive.change import Change, Facts
from duly.reactive.reaction import Reaction
from duly.rows import Rows
from duly.run import Run
from duly.stores.contract import Placed, Store
from duly.wishes import UsingOptions, Wishes, read_wishes

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

Call = tuple[Sequence[Any], Mapping[str, Any]]

SHAPES: Final = 256
"""Shapes of calls that a task remembers to be right: a caller who makes up names must not fill the memory."""


class Desk(Protocol):
    """Where requests are handed in: the application."""

    @property
    def argument_cap(self) -> int: ...
    @property
    def store(self) -> Store: ...
    def place(self, requests: Sequence[Request], connection: Any) -> list[Placed]: ...
    async def aplace(self, requests: Sequence[Request], connection: Any) -> list[Placed]: ...
    def handles(
        self, task: Task[..., Any, T], request: Request, placed: Sequence[Placed]
    ) -> list[Handle[T]]: ...
    def travelling_context(self) -> str: ...


class Inlet(typing.NamedTuple):
    """The parameter of a function that gets its Run or Change: its name, and its place if it has one."""

    name: str
    position: int | None


def find_inlet(function: Callable[..., Any], wanted: type = Run) -> Inlet | None:
    """A parameter annotated `Run` or `Change` is injected; nothing else is magic."""
    for position, parameter in enumerate(inspect.signature(function).parameters.values()):
        if _asks_for(wanted, function, parameter):
            by_place = parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
            return Inlet(parameter.name, position if by_place else None)
    return None


def _asks_for(wanted: type, function: Callable[..., Any], parameter: inspect.Parameter) -> bool:
    annotation = parameter.annotation
    if isinstance(
        annotation, str
    ):  # from __future__ import annotations: look the name up where it was written
        annotation = getattr(function, "__globals__", {}).get(annotation.rpartition(".")[2], annotation)
        return annotation is wanted or annotation in (wanted.__name__, f"duly.{wanted.__name__}")
    return annotation is wanted


class Task(Generic[P, R, T]):
    """A function that can also be asked for.

    Calling it calls the function. `enqueue` stores a job for a worker; `using` sets options for one
    request. R is what a call returns, T what the job's result is.
    """

    def __init__(
        self,
        function: Callable[..., R],
        options: Options,
        desk: Desk,
        *,
        cycle: Cycle | None = None,
        reaction: Reaction | None = None,
        origin: str | None = None,
    ) -> None:
        self.function = function
        self.options = options
        self.cycle = cycle
        self.reaction = reaction
        self.desk = desk
        self.origin = origin or function.__module__
        """The module that made a task of the function: a child process looks there too."""
        self.is_homebound = False
        """No child process can find it, as was found out by trying."""
        self.is_async = inspect.iscoroutinefunction(function)
        self.starts_at_once = options.delivery is not Delivery.AT_MOST_ONCE and not options.needs_process
        """Nothing is recorded before it starts, and no process is needed for it."""
        self.inlet = find_inlet(function)
        self._signature = _asked_for(function, self.inlet)
        self._shapes: set[tuple[Any, ...]] = set()
        self._plainly: Using[P, T] = Using(self, Wishes())
        if reaction is not None:
            _check_told(function, options.name)
        update_wrapper(self, function)

    def __repr__(self) -> str:
        return f"<Task {self.name}>"

    @property
    def name(self) -> str:
        """The name jobs are stored under."""
        return self.options.name

    def check(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Arguments the function could not be called with are refused, already at enqueue.

        That depends on how many come by place and which by name, never on their values: so each shape of a
        call is tried once, which saves most of 2 to 4 µs.
        """
        shape = (len(args), *kwargs)
        if shape in self._shapes:
            return
        self.bind(args, kwargs)
        if len(self._shapes) < SHAPES:
            self._shapes.add(shape)

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> inspect.BoundArguments:
        """Arguments by name; those the function could not be called with are refused."""
        if self.reaction is not None:
            raise BadRequest(
                f"{self.name} runs when a row of {self.reaction.table} changes, not on request. To have rows "
                f"run again: app.reactions.retry({self.name!r}, key=…)."
            )
        try:
            return self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise WrongSignature(self.name, str(error)) from None

    def invoke(self, run: Run, args: Sequence[Any], kwargs: Mapping[str, Any]) -> R:
        """Call the function with its Run in place, and what is stored about a row made a Change."""
        if self.reaction is not None:
            args, kwargs = self._told(run, args)
        elif self.inlet is None:  # most, and all come by here
            return self.function(*args, **kwargs)
        return self._call(run, args, kwargs)

    def _told(self, run: Run, args: Sequence[Any]) -> Call:
        """The one argument of a reactive task."""
        change = Change.of(Facts.read(args[0]), Rows(lambda: self.desk.store, self.options, run))
        inlet = find_inlet(self.function, Change)
        if inlet is None:
            return (), {}
        return ((change,), {}) if inlet.position is not None else ((), {inlet.name: change})

    def _call(self, run: Run, args: Sequence[Any], kwargs: Mapping[str, Any]) -> R:
        if self.inlet is None:
            return self.function(*args, **kwargs)
        name, position = self.inlet
        if position is None or position > len(args):
            return self.function(*args, **{**kwargs, name: run})
        return self.function(*args[:position], run, *args[position:], **kwargs)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """A plain call of the function: no queue, no guard, no retry."""
        if self.inlet is None:
            return self.function(*args, **kwargs)
        return self._call(detached_run(self.options, is_perpetual=self.cycle is not None), args, kwargs)

    def using(self, **given: Unpack[UsingOptions]) -> Using[P, T]:
        """Options for one request, as Django spells them; call `enqueue` on what comes back."""
        return Using(self, read_wishes(Wishes(), given))

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Handle[T]:
        """Store a job for a worker; it is durable when this returns."""
        return self._plainly.enqueue(*args, **kwargs)

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> Handle[T]:
        """The async twin of enqueue."""
        return await self._plainly.aenqueue(*args, **kwargs)

    def enqueue_many(self, calls: Iterable[Call]) -> list[Handle[T]]:
        """Store many jobs in one write; each call is ((args…), {kwargs…})."""
        return self._plainly.enqueue_many(calls)

    async def aenqueue_many(self, calls: Iterable[Call]) -> list[Handle[T]]:
        """The async twin of enqueue_many."""
        return await self._plainly.aenqueue_many(calls)


def _asked_for(function: Callable[..., Any], inlet: Inlet | None) -> inspect.Signature:
    signature = inspect.signature(function)
    if inlet is None:
        return signature
    return signature.replace(parameters=[p for p in signature.parameters.values() if p.name != inlet.name])


def _check_told(function: Callable[..., Any], name: str) -> None:
    """A reactive task is told of a row, and of nothing else."""
    told = {inlet.name for wanted in (Run, Change) if (inlet := find_inlet(function, wanted)) is not None}
    for parameter in inspect.signature(function).parameters.values():
        is_needed = parameter.default is parameter.empty and parameter.kind not in (
            parameter.VAR_POSITIONAL,
            parameter.VAR_KEYWORD,
        )
        if is_needed and parameter.name not in told:
            raise DefinitionError(
                f"Task {name}: nobody gives {parameter.name!r} a value. A reactive task takes "
                "`change: Change` and, if it likes, `run: Run`."
            )


def detached_run(options: Options, *, is_perpetual: bool) -> Run:
    """The Run of a plain call: real enough to be asked, with nobody to tell."""
    claim = Claim(
        id=new_id(), epoch=1, nonce="", task=options.name, queue=options.queue_name, key=None, generation=0,
        arguments="[[],{}]", attempt=0, crashes=0, deferrals=0, cycle=0, is_suspect=False,
        due=SystemClock().now(), tick=None, first_failure=None, context="{}",
    )  # fmt: skip
    return Run(claim, options, tell=lambda signal: None, is_perpetual=is_perpetual)


class Using(Generic[P, T]):
    """A task with options for the next request."""

    def __init__(self, task: Task[P, Any, T], wishes: Wishes) -> None:
        self._task = task
        self._wishes = wishes
        self._made: Request | None = None

    def using(self, **given: Unpack[UsingOptions]) -> Using[P, T]:
        """Further options on top of these."""
        return Using(self._task, read_wishes(self._wishes, given))

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Handle[T]:
        """Store a job for a worker; durable when this returns, or when the given connection commits."""
        return self._placed(self._one(args, kwargs))[0]

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> Handle[T]:
        """The async twin of enqueue."""
        return (await self._aplaced(self._one(args, kwargs)))[0]

    def enqueue_many(self, calls: Iterable[Call]) -> list[Handle[T]]:
        """Store many jobs in one write."""
        return self._placed(self._many(calls))

    async def aenqueue_many(self, calls: Iterable[Call]) -> list[Handle[T]]:
        """The async twin of enqueue_many."""
        return await self._aplaced(at_hand(self._many(calls)))  # before others on the loop change the values

    def _one(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Bundle:
        task = self._task
        task.check(args, kwargs)
        arguments = codec.pack(args, kwargs, cap=task.desk.argument_cap)
        return Bundle(self._pattern(), [new_id()], [arguments])

    def _many(self, calls: Iterable[Call]) -> Bundle:
        if not isinstance(calls, Sequence):  # what comes next may be the same object with other values
            arguments = list(self._packed(calls))
            return Bundle(self._pattern(), new_ids(len(arguments)), arguments)
        wanted = list(calls)
        ids = Later(len(wanted), lambda start, stop: new_ids(stop - start))
        texts = Later(len(wanted), lambda start, stop: self._packed(wanted[start:stop]))
        return Bundle(self._pattern(), ids, texts)

    def _packed(self, calls: Iterable[Call]) -> Iterator[str]:
        check, pack, cap = self._task.check, codec.pack, self._task.desk.argument_cap
        places = -1
        for args, kwargs in calls:
            if kwargs or len(args) != places:  # else of the same shape as the one before
                check(args, kwargs)
                places = -1 if kwargs else len(args)
            yield pack(tuple(args), dict(kwargs), cap=cap)

    def _pattern(self) -> Request:
        """What the requests of these wishes have in common, made anew only in another context."""
        context = self._task.desk.travelling_context()
        pattern = self._made
        if pattern is None or pattern.context != context:
            pattern = self._made = build_request(self._task, self._wishes, "")
        return pattern

    def _placed(self, bundle: Bundle) -> list[Handle[T]]:
        return self._handles(bundle, self._task.desk.place(bundle, self._wishes.connection))

    async def _aplaced(self, bundle: Bundle) -> list[Handle[T]]:
        return self._handles(bundle, await self._task.desk.aplace(bundle, self._wishes.connection))

    def _handles(self, bundle: Bundle, placed: Sequence[Placed]) -> list[Handle[T]]:
        return self._task.desk.handles(self._task, bundle.pattern, placed)


def build_request(task: Task[..., Any, Any], wishes: Wishes, arguments: str) -> Request:
    """Everything a store needs to know about one call, taken from the wishes, else from the task."""
    options = task.options
    key = wishes.key if wishes.key is not None or task.cycle is None else task.name
    guard = _guard(options, wishes, key)
    return Request(
        id=new_id(),
        task=task.name,
        arguments=arguments,
        queue=wishes.queue_name or options.queue_name,
        priority=options.priority if wishes.priority is None else wishes.priority,
        key=key,
        run_after=None if wishes.run_after is None else moment(wishes.run_after, wishes.run_after),
        delay=wishes.delay,
        expires_after=wishes.expires or options.expires,
        clash=_clash(options, wishes, key),
        overlap=wishes.overlap or options.overlap,
        per_key=_per_key(options, wishes),
        guard=guard,
        delivery=options.delivery,
        keep=options.keep,
        perpetual=task.cycle is not None,
        context=task.desk.travelling_context(),
    )


def _guard(options: Options, wishes: Wishes, key: str | None) -> Guard | None:
    window = wishes.unique_for or options.unique_for
    if window is None:
        if wishes.trailing:
            raise BadRequest(f"{options.name}: trailing=True means nothing without unique_for='…'.")
        return None
    if key is None:
        raise BadRequest(
            f"{options.name}: unique_for={window} needs to know what must be unique: "
            ".using(key='lease:42', …)."
        )
    return Guard(window, trailing=wishes.trailing or options.trailing)


def _clash(options: Options, wishes: Wishes, key: str | None) -> Clash:
    if not wishes.replaces:
        return Clash.ADD
    if key is None:
        raise BadRequest(
            f"{options.name}: replace=True needs to know what to replace: .using(key='lease:42', …)."
        )
    return Clash.REPLACE


def _per_key(options: Options, wishes: Wishes) -> int:
    if wishes.overlap is None or options.concurrency_per_key is not None:
        return options.per_key
    return 0 if wishes.overlap is Overlap.ALLOW else 1
