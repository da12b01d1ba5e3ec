"""`duly move` as it is called: what it prints, what it refuses, and with which code it ends."""

from __future__ import annotations

import json
from collections.abc import Generator
from pathlib import Path

import pytest

from duly import Duly
from duly.cli import main
from duly.errors import StoreMoved
from duly.stores.house import House, Stage


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Duly]:
    """A source with two jobs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DULY_URL", raising=False)
    app = Duly("sqlite:///old.db")

    @app.task(name="pack")
    def pack(order: int) -> None:
        raise NotImplementedError

    pack.enqueue_many([((1,), {}), ((2,), {})])
    yield app
    app.close()


def stage(app: Duly) -> Stage | None:
    store = app.store
    assert isinstance(store, House)
    notice = store.run(store.notice())
    return None if notice is None else notice.stage


def test_it_tells_every_step_and_where_to_go_on(shop: Duly, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["move", "sqlite:///old.db", "sqlite:///new.db"])

    printed = capsys.readouterr().out
    assert code == 0
    for words in ("sealed", "drained", "carried 2 jobs", "checked: 2 jobs", "moved 2 jobs", "waiting 2"):
        assert words in printed
    assert f"DULY_URL=sqlite:///{Path.cwd() / 'new.db'}" in printed


def test_a_rehearsal_changes_nothing(shop: Duly, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["move", "sqlite:///old.db", "sqlite:///new.db", "--dry-run"])

    assert code == 0
    assert "would move" in capsys.readouterr().out
    assert stage(shop) is None
    assert not Path("new.db").exists()


def test_a_rehearsal_says_that_the_target_would_be_refused(
    shop: Duly, capsys: pytest.CaptureFixture[str]
) -> None:
    other = Duly("sqlite:///new.db")
    other.task(name="pack")(lambda: None).enqueue()
    other.close()

    code = main(["move", "sqlite:///old.db", "sqlite:///new.db", "--dry-run"])

    assert code == 1
    assert "not empty" in capsys.readouterr().out


def test_the_document_carries_counts_and_the_digest(shop: Duly, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["move", "sqlite:///old.db", "sqlite:///new.db", "--json"])

    document = json.loads(capsys.readouterr().out)
    assert (code, document["jobs"], document["counts"]["waiting"]) == (0, 2, 2)
    assert (document["stage"], len(document["digest"])) == ("gone", 64)


def test_undo_opens_the_source_again(shop: Duly, capsys: pytest.CaptureFixture[str]) -> None:
    store = shop.store
    assert isinstance(store, House)
    store.run(store.seal("a move", "sqlite:///elsewhere.db"))
    with pytest.raises(StoreMoved):
        shop.tasks["pack"].enqueue(3)

    code = main(["move", "--undo", "sqlite:///old.db"])

    assert code == 0
    assert "open again" in capsys.readouterr().out
    assert shop.tasks["pack"].enqueue(3).id


def test_undo_clears_out_a_target_that_was_marked_before_the_source_was_sealed(shop: Duly) -> None:
    other = Duly("sqlite:///new.db")
    target = other.store
    assert isinstance(target, House)
    target.run(target.receive("a move", f"sqlite:///{Path.cwd() / 'old.db'}"))

    code = main(["move", "--undo", "sqlite:///old.db", "sqlite:///new.db"])

    assert (code, stage(other)) == (0, None)
    other.close()


@pytest.mark.parametrize(
    ("words", "code", "complaint"),
    [
        (["sqlite:///old.db"], 2, "say where to"),
        (["sqlite:///old.db", "sqlite:///old.db"], 2, "cannot be moved to itself"),
        (["sqlite:///old.db", "memory://"], 2, "ends with its process"),
        (["sqlite:///old.db", "carrier-pigeon://x"], 2, "No store answers"),
        (["sqlite:///nowhere.db", "sqlite:///new.db"], 3, "there is no"),
        (["--undo", "sqlite:///old.db"], 1, "nothing to undo"),
    ],
)
def test_what_cannot_work_is_one_line_and_a_code(
    shop: Duly, capsys: pytest.CaptureFixture[str], words: list[str], code: int, complaint: str
) -> None:
    ended = main(["move", *words])

    assert ended == code
    assert complaint in capsys.readouterr().err
    assert stage(shop) is None


def test_no_password_is_shown(shop: Duly, capsys: pytest.CaptureFixture[str]) -> None:
    main(["move", "sqlite:///old.db", "redis://user:hush@127.0.0.1:1/0"])

    assert "hush" not in capsys.readouterr().err
