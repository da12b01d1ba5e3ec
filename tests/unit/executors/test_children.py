"""What a pool of child processes does with errands: real processes throughout."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
from datetime import timedelta
from pathlib import Path

import pytest
from tests.unit.executors.conftest import Mailbox, OpenPool, Run, ended_within, ignore, outcome

from duly.executors.children import (
    ChildDied,
    ChildFailed,
    ChildNotStarted,
    Children,
    Errand,
    HardLimitExceeded,
    PoolClosed,
    Stopped,
)

SECOND = timedelta(seconds=1)
SOON = timedelta(seconds=0.2)


def test_an_errand_brings_back_what_its_entry_returned(run: Run) -> None:
    assert run("echo", b"\0\n\xff") == b"\0\n\xff"


def test_a_child_is_kept_for_the_next_errand(run: Run) -> None:
    assert run("pid") == run("pid")


def test_children_are_started_only_when_there_is_work_for_them(open_pool: OpenPool) -> None:
    children = open_pool(4)
    before = children.alive

    children.submit(Errand("bodies:echo", b""), ignore).result(60)
    children.submit(Errand("bodies:echo", b""), ignore).result(60)

    assert before == []
    assert len(children.alive) == 1


def test_an_idle_child_is_retired(open_pool: OpenPool) -> None:
    children = open_pool(idle_after=SOON)
    pid = int(children.submit(Errand("bodies:pid", b""), ignore).result(60))

    assert ended_within(pid, 60)

    assert int(children.submit(Errand("bodies:pid", b""), ignore).result(60)) != pid


def test_eight_errands_share_four_children(open_pool: OpenPool) -> None:
    children = open_pool(4)

    futures = [children.submit(Errand("bodies:echo", bytes([number])), ignore) for number in range(8)]

    assert [future.result(60) for future in futures] == [bytes([number]) for number in range(8)]
    assert len(children.alive) <= 4


def test_free_counts_the_children_without_an_errand(open_pool: OpenPool, mailbox: Mailbox) -> None:
    children = open_pool(2)
    sleeping = children.submit(Errand("bodies:sleep", b""), mailbox)
    mailbox.next()

    while_sleeping = children.free
    children.stop(sleeping, "enough", grace=SECOND)
    outcome(sleeping)

    assert while_sleeping == 1
    assert children.free == 2


def test_a_waiting_errand_that_is_cancelled_never_runs(open_pool: OpenPool, mailbox: Mailbox) -> None:
    children = open_pool(1)
    sleeping = children.submit(Errand("bodies:sleep", b""), ignore)
    waiting = children.submit(Errand("bodies:counts", b"1"), mailbox)

    assert waiting.cancel()
    children.stop(sleeping, "enough", grace=SECOND)
    children.submit(Errand("bodies:echo", b""), ignore).result(60)

    assert mailbox.all() == []
    assert children.free == 1


def test_a_failure_comes_back_with_its_name_and_traceback(children: Children) -> None:
    failure = outcome(children.submit(Errand("bodies:fail", b"no such lease"), ignore))

    assert isinstance(failure, ChildFailed)
    assert failure.name == "builtins.ValueError"
    assert "in fail" in failure.text
    assert "no such lease" in failure.text


@pytest.mark.parametrize("module", ["bodies", "async_bodies"])
def test_sys_exit_in_a_body_is_its_failure_and_not_its_childs_death(children: Children, module: str) -> None:
    pid = children.submit(Errand("bodies:pid", b""), ignore).result(60)

    failure = outcome(children.submit(Errand(f"{module}:exit_politely", b""), ignore))

    assert isinstance(failure, ChildFailed)
    assert failure.name == "builtins.SystemExit"
    assert children.submit(Errand("bodies:pid", b""), ignore).result(60) == pid


@pytest.mark.parametrize(
    ("entry", "complaint"),
    [
        ("no_such_module:run", "No module named 'no_such_module'"),
        ("bodies:no_such_function", "no attribute 'no_such_function'"),
        ("bodies:return_text", "bytes-like object is required|expected a bytes-like"),
        ("__main__:run", "Move it to a module that can be imported"),
    ],
)
def test_an_entry_that_cannot_be_called_fails_by_name(children: Children, entry: str, complaint: str) -> None:
    with pytest.raises(ChildFailed, match=complaint):
        children.submit(Errand(entry, b""), ignore).result(60)


@pytest.mark.parametrize(
    ("way", "evidence"),
    [
        (b"kill", "killed by signal 9 (SIGKILL)"),
        (b"segfault", "killed by signal 11 (SIGSEGV)"),
        (b"exit", "exited with code 3"),
    ],
)
def test_a_death_is_noticed_at_once_and_harms_nobody_else(
    open_pool: OpenPool, mailbox: Mailbox, way: bytes, evidence: str
) -> None:
    children = open_pool(2)
    other = children.submit(Errand("bodies:heed_stop", b""), mailbox)
    mailbox.next()

    death = children.submit(Errand("bodies:die", way), mailbox)
    mailbox.next()
    failure = death.exception(60)

    assert isinstance(failure, ChildDied)
    assert failure.evidence() == evidence
    assert children.submit(Errand("bodies:echo", b"replaced"), ignore).result(60) == b"replaced"
    assert not other.done()


def test_a_death_is_noticed_even_if_a_fork_of_the_child_holds_the_wire(
    children: Children, mailbox: Mailbox
) -> None:
    death = children.submit(Errand("bodies:forks_and_dies", b""), mailbox)
    copy = int(mailbox.next())

    assert isinstance(death.exception(60), ChildDied)
    assert ended_within(copy, 60)


def test_deaths_are_noticed_where_the_system_has_no_process_descriptors(
    open_pool: OpenPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "pidfd_open")
    children = open_pool(1)

    died = children.submit(Errand("bodies:die", b"kill"), ignore)
    killed = children.submit(Errand("bodies:sleep", b"", hard_limit=SOON), ignore)

    assert isinstance(died.exception(60), ChildDied)
    assert isinstance(killed.exception(60), HardLimitExceeded)


def test_a_child_that_died_while_idle_costs_no_errand(run: Run) -> None:
    pid = int(run("pid"))

    os.kill(pid, signal.SIGKILL)

    assert run("echo", b"on another child") == b"on another child"


def test_an_errand_whose_import_kills_every_child_never_started(children: Children) -> None:
    with pytest.raises(ChildNotStarted, match="exited with code 7"):
        children.submit(Errand("deadly_to_import:run", b""), ignore).result(60)


def test_an_import_that_never_ends_is_given_up(open_pool: OpenPool) -> None:
    children = open_pool(start_within=SOON)

    with pytest.raises(ChildNotStarted, match="did not begin in time"):
        children.submit(Errand("slow_to_import:quick", b""), ignore).result(60)


def test_limits_begin_when_the_imports_are_done(children: Children) -> None:
    limit = timedelta(seconds=1)
    errand = Errand("bodies:echo", b"in time", limit, limit, imports=("slow_to_import",))

    assert children.submit(errand, ignore).result(60) == b"in time"


def test_no_interpreter_to_start_is_an_outcome(children: Children, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/no/such/python")

    with pytest.raises(ChildNotStarted, match="/no/such/python"):
        children.submit(Errand("bodies:echo", b""), ignore).result(60)


def test_a_body_past_its_hard_limit_is_dead_with_all_it_started(children: Children, mailbox: Mailbox) -> None:
    said: list[bytes] = []
    for seconds in (0.3, 3, 30):  # a busy machine may need longer to start something
        limit = timedelta(seconds=seconds)
        failure = outcome(children.submit(Errand("bodies:grandchild", b"", hard_limit=limit), mailbox))
        assert isinstance(failure, HardLimitExceeded)
        assert failure.limit == limit
        if said := mailbox.all():
            break

    body, started = map(int, said[0].split())
    assert ended_within(body, 0)
    assert ended_within(started, 60)
    assert children.submit(Errand("bodies:echo", b"replaced"), ignore).result(60) == b"replaced"


def test_a_hard_limit_needs_no_cooperation_of_the_interpreter(children: Children) -> None:
    errand = Errand("bodies:hog_interpreter", b"", soft_limit=SOON, hard_limit=2 * SOON)

    with pytest.raises(HardLimitExceeded, match=r"0\.4 s"):
        children.submit(errand, ignore).result(60)


def test_a_body_is_asked_to_stop_and_may_tidy_up(children: Children, mailbox: Mailbox) -> None:
    for entry in ("bodies:heed_stop", "async_bodies:heed_stop"):
        future = children.submit(Errand(entry, b""), mailbox)
        mailbox.next()

        children.stop(future, "lease lost", grace=timedelta(minutes=1))

        assert future.result(60) == b"tidied up"


def test_a_body_that_stops_without_a_result_was_stopped(children: Children, mailbox: Mailbox) -> None:
    future = children.submit(Errand("bodies:sleep", b""), mailbox)
    pid = mailbox.next()

    children.stop(future, "lease lost", grace=timedelta(minutes=1))
    failure = future.exception(60)

    assert isinstance(failure, Stopped)
    assert failure.reason == "lease lost"
    assert children.submit(Errand("bodies:pid", b""), ignore).result(60) == pid


def test_a_body_that_will_not_stop_is_killed_after_the_grace(children: Children, mailbox: Mailbox) -> None:
    future = children.submit(Errand("bodies:ignore_stop", b""), mailbox)
    pid = int(mailbox.next())

    children.stop(future, "lease lost", grace=timedelta(minutes=1))
    ignored = mailbox.next()
    children.stop(future, "lease lost", grace=SOON)

    assert ignored == b"ignored"
    assert isinstance(future.exception(60), Stopped)
    assert ended_within(pid, 0)


def test_an_errand_stopped_while_it_waits_never_runs(open_pool: OpenPool, mailbox: Mailbox) -> None:
    children = open_pool(1)
    children.submit(Errand("bodies:sleep", b""), ignore)
    waiting = children.submit(Errand("bodies:counts", b"1"), mailbox)

    children.stop(waiting, "superseded", grace=SECOND)

    assert isinstance(waiting.exception(60), Stopped)
    assert mailbox.all() == []


def test_closing_ends_every_errand_and_every_process(open_pool: OpenPool, mailbox: Mailbox) -> None:
    children = open_pool(2)
    children.submit(Errand("bodies:echo", b""), ignore).result(60)
    stubborn = children.submit(Errand("bodies:ignore_stop", b""), mailbox)
    heedful = children.submit(Errand("bodies:heed_stop", b""), mailbox)
    waiting = children.submit(Errand("bodies:echo", b""), ignore)
    for _ in (stubborn, heedful):
        mailbox.next()
    pids = children.alive

    closing = threading.Thread(target=children.close, kwargs={"grace": timedelta(minutes=1)})
    closing.start()
    tidied = heedful.result(60)
    children.close(grace=SOON)
    closing.join()

    assert isinstance(stubborn.exception(0), Stopped)
    assert tidied == b"tidied up"
    assert isinstance(waiting.exception(0), Stopped)
    assert all(ended_within(pid, 0) for pid in pids)


def test_a_second_close_can_shorten_the_grace(children: Children, mailbox: Mailbox) -> None:
    future = children.submit(Errand("bodies:ignore_stop", b""), mailbox)
    mailbox.next()
    patient = threading.Thread(target=children.close, kwargs={"grace": timedelta(minutes=1)})
    patient.start()

    children.close(grace=timedelta(0))
    patient.join(60)

    assert not patient.is_alive()
    assert isinstance(future.exception(0), Stopped)


def test_a_closed_pool_takes_nothing(children: Children) -> None:
    children.close(grace=SECOND)

    with pytest.raises(PoolClosed, match="Open a new one"):
        children.submit(Errand("bodies:echo", b""), ignore)


def test_the_death_of_the_supervising_thread_is_everybodys_news(
    open_pool: OpenPool, mailbox: Mailbox, caplog: pytest.LogCaptureFixture
) -> None:
    children = open_pool(2)
    running = children.submit(Errand("bodies:sleep", b""), mailbox)
    pid = int(mailbox.next())
    sabotaged = children.submit(Errand("bodies:sleep", b""), ignore)
    sabotaged.add_done_callback(lambda _: sys.exit("sabotage"))

    children.stop(sabotaged, "to have its callback called", grace=SECOND)

    with pytest.raises(PoolClosed, match="sabotage"):
        running.result(60)
    with pytest.raises(PoolClosed, match="sabotage"):
        children.submit(Errand("bodies:echo", b""), ignore)
    assert ended_within(pid, 60)
    assert "supervises child processes died" in caplog.text


def test_signals_that_a_terminal_sends_to_all_do_not_end_a_child(run: Run) -> None:
    assert run("signalled_like_by_a_terminal") == b"still here"


def test_programs_that_a_body_starts_can_still_be_terminated(run: Run) -> None:
    assert run("terminable_program") == b"-15"


def test_the_output_of_a_body_is_shown_and_stays_off_the_wire(
    run: Run, capfd: pytest.CaptureFixture[str]
) -> None:
    answer = run("prints", b"intact")

    assert answer == b"intact"
    assert "a line" in capfd.readouterr().out


def test_a_body_cannot_read_the_parents_input(run: Run) -> None:
    assert run("reads_stdin") == b""


def test_a_body_that_closes_its_descriptors_is_ended(children: Children) -> None:
    with pytest.raises(ChildFailed, match="closed the descriptors"):
        children.submit(Errand("bodies:closes_everything", b""), ignore).result(60)


def test_a_body_that_writes_into_the_wire_is_ended(children: Children) -> None:
    with pytest.raises(ChildFailed, match="is no frame"):
        children.submit(Errand("bodies:scribbles", b""), ignore).result(60)


def test_a_pool_gives_every_descriptor_back(open_pool: OpenPool) -> None:
    gc.collect()
    before = os.listdir("/proc/self/fd")

    children = open_pool(2)
    for errand in (Errand("bodies:echo", b""), Errand("bodies:die", b"kill"), Errand("bodies:echo", b"")):
        outcome(children.submit(errand, ignore))
    children.close(grace=SECOND)

    assert len(os.listdir("/proc/self/fd")) == len(before)


SCRIPT = """
import sys
from datetime import timedelta

def greet(message, emit):
    return __name__.encode() + b" greets " + message

class Nested:
    greet = staticmethod(greet)

if __name__ == "__main__":
    raise SystemExit("this part must not run in a child")
"""

UNGUARDED = (
    SCRIPT.split("if __name__", maxsplit=1)[0]
    + """
from duly.executors.children import Children
Children(1, search_path=[], main_file=__file__)
"""
)


@pytest.mark.parametrize("entry", ["__main__:greet", "__main__:Nested.greet"])
def test_a_function_of_the_users_script_is_found_under_main(
    open_pool: OpenPool, tmp_path: Path, entry: str
) -> None:
    script = tmp_path / "script"
    script.write_text(SCRIPT)
    children = open_pool(main_file=str(script))

    assert children.submit(Errand(entry, b"you"), ignore).result(60) == b"__duly_main__ greets you"


def test_a_script_that_starts_children_when_imported_is_told_how_to_guard_them(
    open_pool: OpenPool, tmp_path: Path
) -> None:
    script = tmp_path / "unguarded.py"
    script.write_text(UNGUARDED)
    children = open_pool(main_file=str(script))

    with pytest.raises(ChildFailed, match='Put that call under `if __name__ == "__main__":`'):
        children.submit(Errand("__main__:greet", b"you"), ignore).result(60)
