"""`exactly_once`: a function that has its effect once per execution id, whoever delivers it and how often.

Claim in a short transaction, run the body in one of its own, complete the receipt in that same transaction,
on condition that the claim is still the one in force. No lock is held while the body runs.
"""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeVar, overload

from duly.errors import DefinitionError, ReceiptBusy, ReceiptLost, StoreError
from duly.failpoints import reached
from duly.homes import home_of
from duly.ledger.ledger import Ledger, checked_id
from duly.ledger.receipt import Receipt, as_current
from duly.ledger.threads import in_thread
from duly.ledger.values import Mark, ReceiptState, Refusal, Refused
from duly.run import Run, current_run

log = logging.getLogger("duly.ledger")

R = TypeVar("R")

AFTER_A_LEASE: Final = timedelta(seconds=10)

Missing = Literal["skip", "create"]


class Decorator(Protocol):
    """What `exactly_once(…)` returns: the guarded function takes the same arguments and an execution id."""

    @overload
    def __call__(
        self, function: Callable[..., Coroutine[Any, Any, R]]
    ) -> Callable[..., Coroutine[Any, Any, R | None]]: ...
    @overload
    def __call__(self, function: Callable[..., R]) -> Callable[..., R | None]: ...


def exactly_once(
    *,
    ledger: Ledger,
    name: str | None = None,
    id_argument: str = "execution_id",
    missing: Missing | None = None,
    follows_runs: bool = True,
) -> Decorator:
    """Guard a function by a receipt in `ledger`. It goes nearest the function, below any `@task`.

    The execution id comes with the keyword `id_argument`, or is that of the Duly run it is called in. Without
    either the function runs normally. A duplicate delivery is skipped: None is returned, at once. With
    follows_runs=False only the keyword counts.
    """
    if missing not in (None, "skip", "create"):
        raise DefinitionError(f"missing={missing!r} says nothing. Use 'skip' or 'create'.")

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        guard = Guard(ledger, function, name, id_argument, missing, follows_runs=follows_runs)
        return guard.asynchronous() if inspect.iscoroutinefunction(function) else guard.blocking()

    return decorate


class Delivery(NamedTuple):
    """One call of a guarded function that carries an id."""

    id: str
    creates: bool
    run: Run | None
    """The Duly run that gave the id."""


class Inlet(NamedTuple):
    """The parameter that gets the Receipt: its name, and its place if it has one."""

    name: str
    position: int | None


class Guard:
    """A function and the receipts it is guarded by."""

    def __init__(
        self,
        ledger: Ledger,
        function: Callable[..., Any],
        name: str | None,
        id_argument: str,
        missing: Missing | None,
        *,
        follows_runs: bool = True,
    ) -> None:
        self._ledger = ledger
        self._function = function
        self._id_argument = id_argument
        self._missing = missing
        self._follows_runs = follows_runs
        self.name = name or f"{home_of(function.__module__)}.{function.__qualname__}"
        self._signature = _signature(function)
        self._takes_id = id_argument in self._signature.parameters
        self._inlet = _inlet(self._signature)

    # The two kinds of function.

    def blocking(self) -> Callable[..., Any]:
        """A plain function, guarded."""

        @functools.wraps(self._function)
        def guarded(*args: Any, **kwargs: Any) -> Any:
            delivery = self._delivery(kwargs)
            mark = None if delivery is None else self._claim(delivery)
            if delivery is not None and mark is None:
                return None
            return self._run(mark, args, kwargs)

        return self._dressed(guarded)

    def asynchronous(self) -> Callable[..., Any]:
        """An async function, guarded."""

        @functools.wraps(self._function)
        async def guarded(*args: Any, **kwargs: Any) -> Any:
            delivery = self._delivery(kwargs)
            mark = (
                None if delivery is None else await in_thread(lambda: self._claim(delivery), self._give_back)
            )
            if delivery is not None and mark is None:
                return None
            return await self._arun(mark, args, kwargs)

        return self._dressed(guarded)

    def _dressed(self, guarded: Any) -> Callable[..., Any]:
        guarded.receipt_name = self.name
        guarded.__signature__ = self._outer_signature()
        made: Callable[..., Any] = guarded
        return made

    # Whose delivery it is.

    def _delivery(self, kwargs: dict[str, Any]) -> Delivery | None:
        """The id is taken out of the arguments, unless the function wants to see it."""
        given = kwargs.get(self._id_argument) if self._takes_id else kwargs.pop(self._id_argument, None)
        if given is not None:
            return Delivery(checked_id(given), creates=self._missing == "create", run=None)
        run = current_run.get() if self._follows_runs else None
        if run is None:
            return None
        own_id = checked_id(f"{run.idempotency_key}/{self.name}")
        return Delivery(own_id, creates=self._missing != "skip", run=run)

    def _claim(self, delivery: Delivery) -> Mark | None:
        answer = self._ledger.claim(delivery.id, makes_as=self.name if delivery.creates else None)
        if isinstance(answer, Refused):
            self._skip(delivery, answer)
            return None
        reached("after_claim", self.name)
        return answer

    def _skip(self, delivery: Delivery, refused: Refused) -> None:
        """A duplicate is let go, if whatever it duplicates is done or will be brought back by the sweep.

        Nobody sweeps a receipt that a delivery made: if the claim in the way dies, this delivery is the one
        that must come back.
        """
        if delivery.creates and refused.reason is Refusal.RUNNING:
            wait = max(refused.wait, timedelta(seconds=1))
            if delivery.run is not None:
                delivery.run.defer(wait)
            raise ReceiptBusy(delivery.id, wait)
        level = logging.WARNING if refused.reason is Refusal.MISSING else logging.INFO
        log.log(level, "delivery of receipt %s to %s skipped: %s", delivery.id, self.name, refused.reason)

    # Running a claimed one.

    def _run(self, mark: Mark | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if mark is None and self._inlet is None:
            return self._function(*args, **kwargs)
        with self._beating(mark), as_current(receipt := self._receipt(mark)):
            try:
                self._open_ambient(mark, receipt)
                value = self._function(*self._inserted(args, kwargs, receipt), **kwargs)
                reached("after_body", self.name)
                receipt.finish(None if mark is None else self._ledger.operations.complete(mark))
                reached("before_settle", self.name)
            except BaseException:
                receipt.rollback()
                self._give_back(mark)
                raise
            try:
                receipt.commit()
            except Exception as error:
                self._find_out(mark, error)
            reached("after_settle", self.name)
            return value

    async def _arun(self, mark: Mark | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if mark is None and self._inlet is None:
            return await self._function(*args, **kwargs)
        with self._beating(mark), as_current(receipt := self._receipt(mark)):
            receipt.is_async = True
            try:
                value = await self._function(*self._inserted(args, kwargs, receipt), **kwargs)
                reached("after_body", self.name)
                await receipt.afinish(None if mark is None else self._ledger.operations.complete(mark))
                reached("before_settle", self.name)
            except BaseException:
                await receipt.arollback()
                await in_thread(lambda: self._give_back(mark))
                raise
            try:
                await receipt.acommit()
            except Exception as failure:
                error = failure  # the name of an exception ends with its block
                await in_thread(lambda: self._find_out(mark, error))
            except BaseException:  # cancelled in the middle of a commit, which may have come through
                await in_thread(lambda: self._give_back(mark))
                raise
            reached("after_settle", self.name)
            return value

    def _open_ambient(self, mark: Mark | None, receipt: Receipt) -> None:
        """What the body writes without a connection in hand belongs to its transaction too."""
        if mark is not None and self._ledger.database.bodies.is_ambient:
            receipt.begun()

    def _receipt(self, mark: Mark | None) -> Receipt:
        return Receipt(mark, self._ledger.database.bodies, self._ledger.terms.lease, self._ledger.beat)

    @contextmanager
    def _beating(self, mark: Mark | None) -> Generator[None, None, None]:
        if mark is None:
            yield
            return
        self._ledger.beat.add(mark)
        try:
            yield
        finally:
            self._ledger.beat.remove(mark)

    def _inserted(self, args: tuple[Any, ...], kwargs: dict[str, Any], receipt: Receipt) -> tuple[Any, ...]:
        """The arguments with the receipt in place, unless the caller brought one."""
        inlet = self._inlet
        if inlet is None or inlet.name in kwargs:
            return args
        if inlet.position is None or inlet.position > len(args):
            kwargs[inlet.name] = receipt
            return args
        return (*args[: inlet.position], receipt, *args[inlet.position :])

    def _give_back(self, mark: Mark | None) -> None:
        """So that whoever delivers again need not wait for the lease. It ends by itself if this fails."""
        if mark is None:
            return
        try:
            self._ledger.run(self._ledger.operations.release(mark))
        except StoreError as error:
            log.warning("receipt %s could not be given back, its lease must run out: %s", mark.id, error)

    def _find_out(self, mark: Mark | None, error: Exception) -> None:
        """A commit raised. Giving the claim back waits for it, so afterwards its fate is known.

        A database that cannot be asked leaves it open: the error is told, and the next delivery finds out.
        """
        if mark is None:
            raise error
        # What a dead connection left on the server ends with its idle limit, one lease, at the latest.
        patience = self._ledger.terms.lease + AFTER_A_LEASE
        if self._ledger.run_within(self._ledger.operations.release(mark), patience):
            raise error
        view = self._ledger.run(self._ledger.operations.look(mark.id))
        if view is None or view.state is not ReceiptState.COMPLETED or view.mark != mark.mark:
            raise ReceiptLost(mark.id, mark.epoch) from error
        # In a framework it may have been something after the commit that raised: that must be seen too.
        log.warning(
            "the commit of receipt %s came through although its answer was lost: %s",
            mark.id,
            error,
            exc_info=error,
        )

    def _outer_signature(self) -> inspect.Signature:
        """What callers and queues see: no Receipt, and the execution id."""
        shown = [
            parameter
            for parameter in self._signature.parameters.values()
            if self._inlet is None or parameter.name != self._inlet.name
        ]
        takes_anything = any(parameter.kind is parameter.VAR_KEYWORD for parameter in shown)
        if not self._takes_id and not takes_anything:
            shown.append(
                inspect.Parameter(
                    self._id_argument, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=str | None
                )
            )
        return self._signature.replace(parameters=shown)


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    """With annotations as the things they name, where they can be found."""
    try:
        return inspect.signature(function, eval_str=True)
    except Exception:
        return inspect.signature(function)


def _inlet(signature: inspect.Signature) -> Inlet | None:
    """A parameter annotated `Receipt` is injected; nothing else is magic."""
    for position, parameter in enumerate(signature.parameters.values()):
        if parameter.annotation is Receipt or parameter.annotation in ("Receipt", "duly.Receipt"):
            by_place = parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
            return Inlet(parameter.name, position if by_place else None)
    return None
