"""Which work a worker can take: the tasks it knows, with their limits, less what it holds back itself."""

from __future__ import annotations

from collections.abc import Mapping

from duly.app import AnyTask, App
from duly.kinds import periodic
from duly.stores.contract import Lane, Rate


class Lanes:
    """The lanes of one worker."""

    def __init__(self, app: App, queues: frozenset[str] | None) -> None:
        self.queues = queues
        self._app = app
        self._look()
        self._throttled: dict[str, float] = {}

    def _look(self) -> None:
        """Schedules come and go while a worker serves, and tasks come: an adapter finds them in a table."""
        self._tasks = {task.name: lane_of(task) for task in list(self._app.tasks.values())}
        self._seen = dict(self._app.schedule_terms)
        self._schedules: dict[str, Lane] = {
            periodic.job_task(name): Lane(
                periodic.job_task(name), on_any_queue=True, held_by=(terms["task"],)
            )
            for name, terms in self._seen.items()
        }
        self._lanes = self._tasks | self._schedules

    @property
    def schedules(self) -> Mapping[str, Lane]:
        """The lanes that need no slot."""
        if self._app.schedule_terms.keys() != self._seen.keys():
            self._look()
        return self._schedules

    @property
    def has_schedules(self) -> bool:
        """Whether there is work here that needs no slot."""
        return bool(self.schedules)

    @property
    def tasks(self) -> tuple[str, ...]:
        """What this worker tells others it knows."""
        return tuple(self._lanes)

    def throttle(self, task: str, until: float) -> None:
        """Hold a lane in this process until a monotonic time, or longer if it is held longer already."""
        self._throttled[task] = max(until, self._throttled.get(task, until))

    def open(self, now: float) -> Mapping[str, Lane]:
        """The lanes to ask for now."""
        if self._app.schedule_terms.keys() != self._seen.keys() or len(self._app.tasks) != len(self._tasks):
            self._look()
        return self._less_throttled(self._lanes, now)

    def open_tasks(self, now: float) -> Mapping[str, Lane]:
        """The same without schedules."""
        return self._less_throttled(self._tasks, now)

    def _less_throttled(self, lanes: Mapping[str, Lane], now: float) -> Mapping[str, Lane]:
        if not self._throttled:
            return lanes
        self._throttled = {task: until for task, until in self._throttled.items() if until > now}
        return {task: lane for task, lane in lanes.items() if task not in self._throttled}


def lane_of(task: AnyTask) -> Lane:
    """A task's limits, as the store understands them."""
    rate = task.options.rate
    return Lane(
        task.name,
        concurrency=task.options.concurrency,
        rate=Rate(rate.starts, rate.per) if rate else None,
    )
