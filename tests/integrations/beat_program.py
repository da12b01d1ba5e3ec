"""Tables of django-celery-beat, made by its own migrations and filled through its own models.

python -m tests.integrations.beat_program DATABASE.json       # makes and fills
python -m tests.integrations.beat_program DATABASE.json CODE  # runs generated code, prints the schedules
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import sys
import sysconfig
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

FUTURE = datetime(2125, 1, 2, 3, 4, 5, tzinfo=UTC)


def prefer_python_crontab() -> None:
    """Two packages call themselves `crontab`, and that of rq-scheduler hides the one needed here."""
    place = Path(sysconfig.get_paths()["purelib"]) / "crontab.py"
    spec = importlib.util.spec_from_file_location("crontab", place)
    assert spec is not None
    assert spec.loader is not None
    sys.modules["crontab"] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)


def set_up(database: dict[str, Any]) -> None:
    prefer_python_crontab()
    settings: Any = importlib.import_module("django.conf").settings
    settings.configure(
        DATABASES={"default": database},
        INSTALLED_APPS=["django.contrib.contenttypes", "duly.django", "django_celery_beat"],
        TASKS={"default": {"BACKEND": "duly.django.DulyBackend", "QUEUES": []}},
        DEFAULT_AUTO_FIELD="django.db.models.AutoField",
        USE_TZ=True,
    )
    django: Any = importlib.import_module("django")
    django.setup()


def fill() -> None:
    management: Any = importlib.import_module("django.core.management")
    management.call_command("migrate", "django_celery_beat", verbosity=0)
    beat: Any = importlib.import_module("django_celery_beat.models")

    def crontab(zone: str = "UTC", **fields: str) -> Any:
        return beat.CrontabSchedule.objects.create(timezone=zone, **fields)

    def add(name: str, **words: Any) -> None:
        beat.PeriodicTask.objects.create(
            name=name, **{"task": "tests.integrations.beat_tasks.report", **words}
        )

    minutes = beat.IntervalSchedule.objects.create(every=10, period="minutes")
    add(
        "nightly", crontab=crontab("Europe/Paris", minute="30", hour="2"), args="[1]", kwargs='{"deep": true}'
    )
    add("poll", interval=minutes, queue="io", priority=3, expire_seconds=60)
    add("days", interval=beat.IntervalSchedule.objects.create(every=2, period="days"), start_time=FUTURE)
    add("weekend", crontab=crontab(minute="*/15", hour="22-2", day_of_week="fri-mon"))
    add("until then", interval=minutes, expires=FUTURE)
    add("off", interval=minutes, enabled=False)
    add("once", clocked=beat.ClockedSchedule.objects.create(clocked_time=FUTURE), one_off=True, args="[2]")
    add("once in the night", crontab=crontab(minute="0", hour="3", day_of_month="1"), one_off=True)
    add("both days", crontab=crontab(minute="0", hour="3", day_of_month="13", day_of_week="5"))
    solar = beat.SolarSchedule.objects.create(event="sunrise", latitude=48, longitude=2)
    add("sun", solar=solar)
    add("nameless", task="report", interval=minutes)
    beat.PeriodicTask.objects.filter(name="nameless").update(args="[")
    beat.PeriodicTask.objects.create(
        name="celery.backend_cleanup", task="celery.backend_cleanup", interval=minutes
    )


def try_out(code: str) -> None:
    exec(compile(code, "generated", "exec"), {})  # noqa: S102 - running what was written is the point
    scheduling: Any = importlib.import_module("duly.django.scheduling")
    print(json.dumps({one.name: one.terms() for one in scheduling.registry.all()}, default=str))


def main() -> None:
    set_up(json.loads(Path(sys.argv[1]).read_text()))
    if len(sys.argv) > 2:
        try_out(Path(sys.argv[2]).read_text())
    else:
        fill()


if __name__ == "__main__":
    main()
