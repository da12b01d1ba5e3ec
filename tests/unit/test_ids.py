"""Ids rise within a process and never repeat, in threads and after a fork."""

from __future__ import annotations

import os
import re
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import pytest

from duly import clock, ids
from duly.clock import SystemClock, boot_id
from duly.errors import BadRequest
from duly.ids import id_time, new_id, new_ids, new_nonce, worker_id


def test_an_id_is_a_uuid_of_version_7_in_lowercase_hex() -> None:
    made = new_id()

    assert re.fullmatch(r"[0-9a-f]{32}", made)
    assert UUID(made).version == 7
    assert UUID(made).variant == "specified in RFC 4122"


def test_each_id_is_larger_than_the_one_before() -> None:
    made = [new_id() for _ in range(20_000)]

    assert made == sorted(set(made))


def test_ids_drawn_together_rise_between_those_drawn_alone() -> None:
    made = [new_id(), *new_ids(5_000), new_id(), *new_ids(1), *new_ids(0), new_id()]

    assert len(made) == 5_004
    assert made == sorted(set(made))
    assert all(UUID(each).version == 7 for each in made)


def test_ids_drawn_together_carry_into_the_next_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    source = ids._Source()  # pyright: ignore[reportPrivateUsage]
    source.millisecond, source.tail = 2**47, 2**62 - 2
    monkeypatch.setattr(ids, "_source", source)

    made = new_ids(50)

    assert made == sorted(set(made))
    assert all(UUID(each).version == 7 for each in made)
    assert made[-1][12:16] == "7001"


def test_ids_keep_rising_when_the_clock_steps_back(monkeypatch: pytest.MonkeyPatch) -> None:
    before = new_id()
    monkeypatch.setattr(ids, "time_ns", lambda: 1_000_000_000)

    after = [new_id() for _ in range(100)]

    assert [before, *after] == sorted({before, *after})


def test_a_full_millisecond_borrows_from_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    source = ids._Source()  # pyright: ignore[reportPrivateUsage]
    source.millisecond, source.tail = 2**47, 2**74 - 1
    monkeypatch.setattr(ids, "_source", source)

    made = [new_id(), new_id()]

    assert made == sorted(made)
    assert all(UUID(each).version == 7 for each in made)
    assert int(made[0][:12], 16) == 2**47 + 1


def test_threads_never_draw_the_same_id() -> None:
    with ThreadPoolExecutor(8) as pool:
        batches = list(pool.map(new_ids, [2_000] * 8))

    made = [each for batch in batches for each in batch]
    assert len(set(made)) == len(made)
    assert all(batch == sorted(batch) for batch in batches)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_child_does_not_repeat_its_parent() -> None:
    new_nonce()
    readable, writable = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writable, f"{new_nonce()} {new_nonce()}".encode())
        os._exit(0)
    os.waitpid(child, 0)

    theirs = os.read(readable, 100).decode().split()

    os.close(readable)
    os.close(writable)
    assert len(theirs) == 2
    assert not {new_nonce(), new_nonce()} & set(theirs)


def test_an_id_tells_when_it_was_made() -> None:
    before = SystemClock().now()

    made = id_time(new_id())

    assert before - timedelta(milliseconds=1) <= made <= SystemClock().now() + timedelta(seconds=1)
    assert id_time("019a86d5a4007000800000000000000a") == datetime(
        2025, 11, 15, 9, 25, 39, 456_000, tzinfo=UTC
    )


@pytest.mark.parametrize(
    "wrong", ["", "42", "x" * 32, "019a86d5a400400080000000000000aa", "zzzzzzzzzzzz7" + "0" * 19]
)
def test_what_is_no_id_has_no_time(wrong: str) -> None:
    with pytest.raises(BadRequest, match=re.escape(repr(wrong))):
        id_time(wrong)


def test_a_nonce_has_sixteen_hex_digits_and_does_not_repeat() -> None:
    made = [new_nonce() for _ in range(5_000)]

    assert len(set(made)) == len(made)
    assert all(re.fullmatch(r"[0-9a-f]{16}", each) for each in made)


def test_a_worker_is_named_after_its_process_and_never_twice_alike() -> None:
    first, second = worker_id(), worker_id()

    assert f"-{os.getpid()}-" in first
    assert first != second


def test_the_system_clock_is_aware_and_its_boot_time_rises() -> None:
    system = SystemClock()

    earlier, later = system.boot(), system.boot()

    assert system.now().utcoffset() == timedelta(0)
    assert later >= earlier > 0


def test_the_boot_id_is_stable_within_a_boot() -> None:
    first = boot_id()
    boot_id.cache_clear()

    assert first
    assert boot_id() == first


def test_without_a_name_from_the_kernel_the_boot_is_named_by_its_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(clock, "_BOOT_ID", tmp_path / "missing")
    boot_id.cache_clear()

    named = boot_id()

    boot_id.cache_clear()
    assert re.fullmatch(r"boot-\d+", named)
