"""Each fault of a file is one sentence that names the file and the remedy."""

from __future__ import annotations

import logging
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.unit.sqlite.conftest import OpenDriver
from tests.unit.sqlite.notes import MIGRATIONS, add, add_lightly, ask, texts

from duly.errors import StoreBusy, StoreError, StoreUnavailable
from duly.stores.drive import Operation
from duly.stores.sqlite import opening
from duly.stores.sqlite.driver import Driver
from duly.stores.sqlite.faults import check_build, file_system, network_warning

MOUNTS = r"""22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
31 22 0:27 / /srv/share rw,relatime shared:2 - nfs4 server:/export rw
32 22 0:28 / /srv/share/local rw - xfs /dev/vdb rw
33 22 0:29 / /mnt/my\040disk rw - fuse.sshfs host:/ rw
34 22 0:30 / /srv/covered rw - nfs server:/a rw
35 22 0:31 / /srv/covered rw - tmpfs tmpfs rw
a line that is no mount
"""


def opening_fails(path: str | Path, expected: str) -> str:
    with pytest.raises(StoreUnavailable, match=expected) as caught:
        Driver(f"sqlite:///{path}", migrations=MIGRATIONS).open()
    return str(caught.value)


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    message = opening_fails(tmp_path / "missing" / "duly.db", "Create it first")

    assert str(tmp_path / "missing") in message


def test_a_directory_in_place_of_the_file_is_named(tmp_path: Path) -> None:
    opening_fails(tmp_path, "is a directory")


def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    (tmp_path / "duly.db").write_text("Dear diary, " * 500)

    assert str(tmp_path / "duly.db") in opening_fails(tmp_path / "duly.db", "not a SQLite database")


def test_a_damaged_file_is_found_when_it_is_opened(path: str, open_driver: OpenDriver) -> None:
    driver = open_driver()
    for n in range(20):
        driver.run(add(f"note {n} " + "x" * 5000))
    driver.close()
    with open(path, "r+b") as file:
        file.seek(4096 * 3)
        file.write(b"\xff" * 4096 * 4)

    assert path in opening_fails(path, "is damaged")


@pytest.mark.parametrize("added", [add, add_lightly])
def test_a_file_that_was_deleted_is_not_written_to(
    driver: Driver, path: str, added: Callable[[str], Operation[Any]]
) -> None:
    driver.run(add("one"))
    os.unlink(path)

    with pytest.raises(StoreUnavailable, match="was deleted while it was in use"):
        driver.run(added("two"))

    assert not os.path.exists(path)


@pytest.mark.parametrize("added", [add, add_lightly])
def test_a_file_that_was_replaced_is_not_written_to(
    driver: Driver, path: str, added: Callable[[str], Operation[Any]]
) -> None:
    driver.run(add("one"))
    log = Path(path + "-wal").read_bytes()
    shutil.copy(path, path + ".restored")
    os.replace(path + ".restored", path)

    with pytest.raises(StoreUnavailable, match="was replaced by another file"):
        driver.run(added("two"))

    assert Path(path + "-wal").read_bytes() == log, "the log would be read as that of the other file"


def test_a_file_that_goes_away_during_a_commit_fails_that_commit(driver: Driver, path: str) -> None:
    with pytest.raises(StoreUnavailable, match="was deleted"):
        driver.run(add("one", before=lambda: os.unlink(path)))


def test_readers_notice_within_a_moment_that_the_file_was_deleted(
    driver: Driver, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver.run(texts())
    os.unlink(path)
    monkeypatch.setattr("duly.stores.sqlite.desk.LOOK_EVERY", 0.0)

    with pytest.raises(StoreUnavailable, match="was deleted"):
        driver.run(texts())


def test_after_closing_a_replaced_file_is_used_like_any_other(driver: Driver, path: str) -> None:
    driver.run(add("one"))
    driver.close()
    shutil.copy(path, path + ".restored")
    os.replace(path + ".restored", path)

    assert driver.run(texts()) == ["one"]


def test_a_full_disk_fails_the_write_and_spares_the_file(driver: Driver) -> None:
    driver.run(add("one"))
    (page_count,) = driver.run(ask("pragma page_count"))[0]
    driver.run(ask(f"pragma max_page_count={page_count}"))  # as good as a full disk

    with pytest.raises(StoreUnavailable, match="the disk is full") as caught:
        driver.run(add("x" * 100_000))
    assert not isinstance(caught.value, StoreBusy)

    driver.run(ask("pragma max_page_count=1000000"))
    assert driver.run(add("two")) == 2
    assert driver.run(ask("pragma integrity_check", writes=False)) == [("ok",)]


def test_an_error_nobody_foresaw_is_still_one_of_ours(driver: Driver) -> None:
    with pytest.raises(StoreError, match="please report it") as caught:
        driver.run(ask("selekt 1"))

    assert isinstance(caught.value.__cause__, sqlite3.Error)


def test_an_old_library_is_refused() -> None:
    with pytest.raises(StoreUnavailable, match=r"3\.37\.2; Duly needs 3\.38\.0"):
        check_build((3, 37, 2))


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/duly.db", "ext4"),
        ("/srv/share/duly.db", "nfs4"),
        ("/srv/share/local/duly.db", "xfs"),
        ("/srv/shared/duly.db", "ext4"),
        ("/mnt/my disk/duly.db", "fuse.sshfs"),
        ("/srv/covered/duly.db", "tmpfs"),
    ],
)
def test_the_file_system_is_that_of_the_nearest_mount(path: str, kind: str) -> None:
    assert file_system(path, MOUNTS) == kind


def test_nothing_is_known_where_the_kernel_lists_nothing() -> None:
    assert file_system("/var/duly.db", "") == ""
    assert network_warning("/var/duly.db", "") is None


def test_a_network_file_system_deserves_a_warning(
    path: str, open_driver: OpenDriver, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(opening, "mount_table", lambda: "31 22 0:27 / / rw - nfs4 server:/ rw")

    with caplog.at_level(logging.WARNING, "duly.sqlite"):
        open_driver()

    assert [path in record.getMessage() and "nfs4" in record.getMessage() for record in caplog.records] == [
        True
    ]


def test_the_description_names_what_a_doctor_asks_for(driver: Driver, path: str) -> None:
    driver.run(add("one"))

    described = driver.describe()

    assert described["file"] == path
    assert described["file owner"] == "duly"
    assert described["sqlite"] == sqlite3.sqlite_version
    assert described["journal"] == "wal"
    assert described["synchronous"] == "full"
    assert described["wal-reset race"] in {"yes", "no"}
    assert described["exposed to it"] == "no"
    assert described["log size"].endswith("bytes")


def test_closing_leaves_one_file_with_everything_in_it(driver: Driver, path: str) -> None:
    driver.run(add("one"))

    driver.close()

    assert not os.path.exists(path + "-wal")
    with closing(sqlite3.connect(path)) as outside:
        assert outside.execute("select text from duly_note").fetchall() == [("one",)]
