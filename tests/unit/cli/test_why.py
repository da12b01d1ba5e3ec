"""why: every condition of the claim, and one sentence."""

from __future__ import annotations

from typing import Any

from tests.unit.cli.arrange import Command, Shop


def conclusion(duly: Command, *words: str) -> str:
    answer = duly("why", *words, "--json")
    assert answer.code == 0
    return str(answer.document["conclusion"])


def conditions(document: dict[str, Any]) -> dict[str, bool]:
    return {row["condition"]: row["holds"] for row in document["conditions"]}


def test_a_job_of_a_held_task_waits_because_of_that(duly: Command, shop: Shop) -> None:
    shop.task("mail").using(key="lease:42").enqueue("ann")
    shop.app.pause(task=shop.task("mail"), reason="too many letters")

    answer = duly("why", "mail", "lease:42", "--json")

    assert conditions(answer.document)["task not held"] is False
    assert conditions(answer.document)["due"] is True
    assert answer.document["conclusion"].startswith("It waits because task ")
    assert "is held until somebody resumes it: too many letters" in answer.document["conclusion"]


def test_a_job_that_is_not_due_says_when_it_is(duly: Command, shop: Shop) -> None:
    job = shop.task("mail").using(run_after="1h").enqueue("ann")

    assert "It waits because ready at" in conclusion(duly, job.id)


def test_without_workers_that_is_the_reason(duly: Command, shop: Shop) -> None:
    job = shop.task("mail").enqueue("ann")

    sentence = conclusion(duly, job.id)

    assert sentence == "It waits because no worker is alive: start one with `duly worker`."


async def test_a_live_worker_that_serves_other_queues_is_told(duly: Command, shop: Shop) -> None:
    async with shop.app.worker(queues=["other"]):
        job = await shop.task("mail").aenqueue("ann")
        # Reading through the command closes the store of the shared application, so it gets its own.
        sentence = conclusion(duly, job.id, "--url", "sqlite:///duly.db")

    assert "no live worker serves queue 'default' with this task" in sentence


def test_a_finished_job_says_how_it_ended(duly: Command, shop: Shop) -> None:
    job = shop.task("mail").using(key="k").enqueue("nobody")
    shop.work()

    sentence = conclusion(duly, "mail", "k")

    assert sentence.startswith("It does not run because it is failed")
    assert "LookupError: *** lives here" in sentence  # no code was named, and nobody is an argument
    assert job.key == "k"


def test_the_waiting_job_of_a_key_is_the_one_meant(duly: Command, shop: Shop) -> None:
    shop.task("mail").using(key="k").enqueue("ann")
    shop.work()
    waiting = shop.task("mail").using(key="k").enqueue("bob")

    assert duly("why", "mail", "k", "--json").document["job"]["id"] == waiting.id


def test_a_key_nobody_used_names_near_ones(duly: Command, shop: Shop) -> None:
    shop.task("mail").using(key="lease:42").enqueue("ann")

    answer = duly("why", "mail", "lease:24")

    assert answer.code == 1
    assert "has the key 'lease:24'. Did you mean 'lease:42'?" in answer.err


def test_a_key_unlike_any_shows_what_keys_look_like(duly: Command, shop: Shop) -> None:
    shop.task("mail").using(key="lease:42").enqueue("ann")

    assert "Its keys are like 'lease:42'" in duly("why", "mail", "zzz").err


def test_a_task_nobody_knows_suggests_the_nearest(duly: Command, shop: Shop) -> None:
    answer = duly("why", f"{shop.module}.mial", "k", "-a", shop.target)

    assert answer.code == 1
    assert f"Did you mean '{shop.module}.mail'" in answer.err


def test_the_text_lists_yes_and_no(duly: Command, shop: Shop) -> None:
    job = shop.task("mail").enqueue("ann")

    lines = duly("why", job.id).out.splitlines()

    assert any(line.startswith("  yes  due ") for line in lines)
    assert any(line.startswith("  no   known to a live worker") for line in lines)
    assert lines[-1].startswith("It waits because")
