"""status, jobs and show: what is there, for people and for programs."""

from __future__ import annotations

import sqlite3

import pytest
from tests.unit.cli.arrange import Command, Shop

from duly.job import State


def test_status_counts_jobs_by_queue_task_and_state(duly: Command, shop: Shop) -> None:
    shop.task("mail").enqueue("ann")
    shop.task("mail").enqueue("nobody")
    shop.work()
    shop.task("fetch").enqueue(1)

    document = duly("status", shop.target, "--json").document

    assert document["jobs"] == dict.fromkeys(map(str, State), 0) | {"waiting": 1, "done": 1, "failed": 1}
    queues = {row["queue"]: row for row in document["queues"]}
    assert set(queues) == {"default", "io"}
    assert queues["io"]["oldest_due"] is not None
    tasks = {row["task"]: (row["done"], row["failed"]) for row in document["tasks"]}
    assert tasks[f"{shop.module}.mail"] == (1, 1)


def test_status_tells_what_is_held_and_that_nobody_works(duly: Command, shop: Shop) -> None:
    shop.app.pause(queue="io", reason="the printer is on fire")

    answer = duly("status")

    assert "the printer is on fire" in answer.out
    assert "no workers" in answer.out


def test_jobs_are_listed_newest_first_without_the_clockwork(duly: Command, shop: Shop) -> None:
    first = shop.task("mail").enqueue("ann")
    second = shop.task("mail").using(key="lease:42").enqueue("bob")
    shop.work()  # puts the schedule's own job too

    document = duly("jobs", "--json").document

    assert [job["id"] for job in document["jobs"]] == [second.id, first.id]
    assert document["jobs"][0]["key"] == "lease:42"
    assert (document["matching"], document["next"]) == (2, None)


def test_the_clockwork_is_listed_on_request(duly: Command, shop: Shop) -> None:
    shop.work()

    document = duly("jobs", "--all", "--json").document

    assert [job["task"] for job in document["jobs"]] == ["duly.schedule:nightly"]


def test_jobs_are_filtered_by_the_last_part_of_a_task_and_by_error(duly: Command, shop: Shop) -> None:
    shop.task("mail").enqueue("ann")
    failing = shop.task("mail").enqueue("nobody")
    shop.task("fetch").enqueue(1)
    shop.work()

    document = duly(
        "jobs", "--task", "mail", "--state", "failed,done", "--error", "LIVES HERE", "--json"
    ).document

    assert [job["id"] for job in document["jobs"]] == [failing.id]


def test_long_lists_are_read_page_by_page(duly: Command, shop: Shop) -> None:
    jobs = shop.task("mail").enqueue_many([((str(n),), {}) for n in range(5)])

    first = duly("jobs", "--limit", "3", "--json").document
    rest = duly("jobs", "--limit", "3", "--before", str(first["next"]), "--json").document

    seen = [job["id"] for page in (first, rest) for job in page["jobs"]]
    assert seen == [job.id for job in reversed(jobs)]
    assert rest["next"] is None


def test_an_unknown_state_suggests_the_nearest(duly: Command, shop: Shop) -> None:
    answer = duly("jobs", "--state", "faild")

    assert answer.code == 2
    assert "'faild' is no state. Did you mean 'failed'?" in answer.err


def test_an_empty_list_says_so(duly: Command, shop: Shop) -> None:
    assert duly("jobs").out == "no jobs\n"


def test_no_value_reaches_the_terminal_unescaped(duly: Command, shop: Shop) -> None:
    job = shop.task("mail").using(key="a\x1b[2Jb").enqueue("nobody")
    shop.work()

    looks = (["jobs"], ["show", job.id], ["why", job.id])
    out = "".join(duly(*words, "-a", shop.target).out for words in looks)

    assert "\x1b" not in out
    assert "a\\x1b[2Jb" in out
    assert "nobody lives here\\x1b[31m" in out


def test_show_tells_the_call_and_the_history(duly: Command, shop: Shop) -> None:
    job = shop.task("mail").using(key="k").enqueue("nobody")
    shop.work()

    answer = duly("show", job.id, "-a", shop.target)

    assert f"{shop.module}.mail('nobody')" in answer.out
    assert "failed" in answer.out
    assert "LookupError" in answer.out


def test_show_in_json_has_the_whole_error_and_every_line_of_history(duly: Command, shop: Shop) -> None:
    job = shop.task("mail").enqueue("nobody")
    shop.work()

    document = duly("show", job.id, "-a", shop.target, "--json").document

    assert document["arguments"] == [["nobody"], {}]
    assert document["error"].startswith("Traceback")
    assert [line["event"] for line in document["history"]][-1] == "fail"


def test_show_hides_what_a_task_redacts_by_place_or_by_name(duly: Command, shop: Shop) -> None:
    by_place = shop.task("sign_in").enqueue("ann", "s3cret")
    by_name = shop.task("sign_in").enqueue(user="ann", password="s3cret")

    shown = [duly("show", job.id, "-a", shop.target, "--json") for job in (by_place, by_name)]

    assert [answer.document["arguments"] for answer in shown] == [
        [["ann", "***"], {}],
        [[], {"user": "ann", "password": "***"}],
    ]


def test_show_without_the_code_shows_no_arguments_unless_told_to(duly: Command, shop: Shop) -> None:
    job = shop.task("sign_in").enqueue("ann", "s3cret")

    hidden = duly("show", job.id)
    told = duly("show", job.id, "--arguments", "--json")

    assert "s3cret" not in hidden.out
    assert "hidden" in hidden.out
    assert told.document["arguments"] == [["ann", "s3cret"], {}]


LOOKS = (
    ["jobs"],
    ["jobs", "--text", "declined"],
    ["show", "{id}"],
    ["why", "{id}"],
    ["failures"],
    ["retry", "--state", "failed", "--dry-run"],
    ["prune", "--state", "failed", "--dry-run"],
)


@pytest.mark.parametrize("form", [[], ["--json"]], ids=["text", "json"])
def test_no_error_quotes_what_a_task_redacts(duly: Command, shop: Shop, form: list[str]) -> None:
    job = shop.task("pay").enqueue("4111-1111", note="for the rent")
    shop.work()

    def told(*more: str) -> str:
        return "\n".join(duly(*(word.format(id=job.id) for word in look), *form, *more).out for look in LOOKS)

    with_code, without = told("-a", shop.target), told()

    assert with_code.count("declined *** for the rent") >= len(LOOKS)
    assert without.count("declined *** ***") >= len(LOOKS)  # nobody knows which of the two is the secret
    assert "4111" not in with_code + without


def test_a_job_that_is_not_there_is_a_no(duly: Command, shop: Shop) -> None:
    answer = duly("show", "0" * 32)

    assert answer.code == 1
    assert "No job has the id" in answer.err


def test_a_schema_for_newer_code_is_told_apart(duly: Command, shop: Shop) -> None:
    shop.app.close()
    with sqlite3.connect("duly.db") as connection:
        connection.execute("update duly_schema set oldest_code = 999")
    connection.close()

    answer = duly("status")

    assert answer.code == 3
    assert "newer code" in answer.err


def test_a_file_that_is_no_database_is_a_matter_of_the_store(duly: Command, shop: Shop) -> None:
    (shop.folder / "notes.txt").write_text(
        "milk, eggs, and enough text to look like a file of its own\n" * 50
    )

    answer = duly("status", "--url", "sqlite:///notes.txt")

    assert answer.code == 3
    assert "not a SQLite database" in answer.err


def test_failures_are_told_by_cause(duly: Command, shop: Shop) -> None:
    failing = [shop.task("mail").enqueue("nobody") for _ in range(2)]
    shop.work()

    (group,) = duly("failures", shop.target, "--json").document["failures"]
    text = duly("failures", shop.target).out
    jobs = duly("jobs", "--fingerprint", group["fingerprint"], "--json").document["jobs"]

    assert (group["count"], group["is_more"], group["sample"]) == (2, False, failing[-1].id)
    assert "LookupError: nobody lives here" in group["error"]
    assert "LookupError: nobody lives here\\x1b" in text  # no error paints a terminal
    assert group["tasks"] == [f"{shop.module}.mail"]
    assert {job["id"] for job in jobs} == {job.id for job in failing}


def test_no_failures_are_told_in_words(duly: Command, shop: Shop) -> None:
    assert duly("failures").out == "no failures\n"


def test_jobs_are_found_by_a_text_in_their_arguments(duly: Command, shop: Shop) -> None:
    shop.task("mail").enqueue("bob")
    wanted = [shop.task("mail").enqueue("ann the first"), shop.task("mail").enqueue("Ann the second")]

    first = duly("jobs", "--text", "ANN", "--limit", "1", "--json").document
    second = duly("jobs", "--text", "ANN", "--before", str(first["next"]), "--json").document
    text = duly("jobs", "--text", "ann", "--limit", "1").out

    assert [job["id"] for job in (*first["jobs"], *second["jobs"])] == [wanted[1].id, wanted[0].id]
    assert (first["matching"], second["next"]) == (None, None)
    assert f"--before {first['next']}" in text
