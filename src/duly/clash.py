"""What a request does to what already stands for its key.

Pure, and the same for every store: the store locks the key, reads what stands, asks `place`, and
writes what it says. One rule of design §3.1 per branch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from duly.job import Clash, Decision, Overlap, Request


@dataclass(frozen=True, slots=True)
class Stander:
    """A live job of the same serial."""

    id: str
    key: str | None
    generation: int


@dataclass(frozen=True, slots=True)
class Window:
    """A guard in force: until when, and the job whose request was accepted."""

    until: datetime
    id: str


@dataclass(frozen=True, slots=True)
class Scene:
    """Everything that stands for a serial at this moment, read under its lock."""

    waiting: Sequence[Stander] = ()
    running: Sequence[Stander] = ()
    window: Window | None = None
    has_marker: bool = False


@dataclass(frozen=True, slots=True)
class Placement:
    """What to write for a request.

    `decision` tells the caller; `id` is the job its handle speaks of. With `creates` a new job is
    stored, with `merges_into` an existing one takes the latest arguments and the earlier time.
    """

    decision: Decision
    id: str
    creates: bool = False
    merges_into: str | None = None
    is_parked: bool = False
    supersedes: tuple[str, ...] = ()
    """Older jobs of the same key: waiting ones are cancelled, running ones marked."""
    overtakes: tuple[str, ...] = ()
    """Earlier ticks still waiting: skipped."""
    cancels: tuple[str, ...] = ()
    """Running jobs that are asked to stop."""
    due: datetime | None = None
    """Replaces the request's own due time: the end of a guard's window."""
    is_suppressed: bool = False
    opens_window: bool = False


def place(request: Request, scene: Scene, now: datetime) -> Placement:
    """Decide one request against one scene."""
    if request.clash is Clash.SEED:
        return _seed(request, scene)
    if request.clash is Clash.REPLACE:
        return _replace(request, scene)
    if request.guard and scene.window and now < scene.window.until:
        return _inside_window(request, scene, scene.window, trailing=request.guard.trailing)
    return _add(request, scene)


def _seed(request: Request, scene: Scene) -> Placement:
    standing = [*scene.waiting, *scene.running]
    if standing:
        return Placement(Decision.KEPT, standing[0].id)
    if scene.has_marker:
        return Placement(Decision.SKIPPED, request.id)
    return Placement(Decision.CREATED, request.id, creates=True)


def _replace(request: Request, scene: Scene) -> Placement:
    older = tuple(stander.id for stander in (*scene.waiting, *scene.running) if stander.key == request.key)
    return Placement(
        Decision.REPLACED if older else Decision.CREATED,
        request.id,
        creates=True,
        is_parked=bool(scene.running) and request.overlap is not Overlap.ALLOW,
        supersedes=older,
        cancels=_ids(scene.running) if request.overlap is Overlap.CANCEL_PREVIOUS else (),
        opens_window=request.guard is not None,
    )


def _inside_window(request: Request, scene: Scene, window: Window, *, trailing: bool) -> Placement:
    if not trailing:
        return Placement(Decision.KEPT, window.id, is_suppressed=True)
    same_key = _of_key(scene.waiting, request.key)
    if same_key:
        return Placement(Decision.KEPT, same_key[-1].id, merges_into=same_key[-1].id, due=window.until)
    is_parked = bool(scene.running) and request.overlap is not Overlap.ALLOW
    decision = Decision.QUEUED if is_parked else Decision.CREATED
    return Placement(decision, request.id, creates=True, is_parked=is_parked, due=window.until)


def _add(request: Request, scene: Scene) -> Placement:
    opens_window = request.guard is not None
    same_key = _of_key(scene.waiting, request.key)
    if same_key:
        waiting = same_key[-1].id  # after a recovery two may wait: the newer one holds the newer wish
        return Placement(Decision.KEPT, waiting, merges_into=waiting, opens_window=opens_window)
    if not scene.running:
        follows = request.overlap is Overlap.QUEUE_ALL and request.per_key == 1 and bool(scene.waiting)
        return Placement(
            Decision.QUEUED if follows else Decision.CREATED,
            request.id,
            creates=True,
            is_parked=follows,
            overtakes=_overtaken(request, scene),
            opens_window=opens_window,
        )
    return _beside_a_run(request, scene, opens_window=opens_window)


def _beside_a_run(request: Request, scene: Scene, *, opens_window: bool) -> Placement:
    of_key = _of_key(scene.running, request.key)
    overtakes = _overtaken(request, scene)
    match request.overlap:
        case Overlap.SKIP:
            return Placement(Decision.SKIPPED, (of_key or scene.running)[-1].id, is_suppressed=True)
        case Overlap.ALLOW:
            return Placement(
                Decision.CREATED,
                request.id,
                creates=True,
                supersedes=_ids(of_key),
                overtakes=overtakes,
                opens_window=opens_window,
            )
        case Overlap.CANCEL_PREVIOUS:
            return Placement(
                Decision.REPLACED,
                request.id,
                creates=True,
                is_parked=True,
                supersedes=_ids(of_key),
                cancels=_ids(scene.running),
                overtakes=overtakes,
                opens_window=opens_window,
            )
        case Overlap.QUEUE_ONE | Overlap.QUEUE_ALL:
            is_parked = len(scene.running) >= request.per_key
            return Placement(
                Decision.QUEUED if is_parked else Decision.CREATED,
                request.id,
                creates=True,
                is_parked=is_parked,
                overtakes=overtakes,
                opens_window=opens_window,
            )


def _overtaken(request: Request, scene: Scene) -> tuple[str, ...]:
    """Waiting jobs of the serial but not of the key are earlier ticks of one schedule."""
    return () if request.overlap in (Overlap.QUEUE_ALL, Overlap.ALLOW) else _ids(scene.waiting)


def _of_key(standers: Sequence[Stander], key: str | None) -> list[Stander]:
    return [stander for stander in standers if stander.key == key]


def _ids(standers: Sequence[Stander]) -> tuple[str, ...]:
    return tuple(stander.id for stander in standers)
