"""`duly dashboard`: where it may listen, and with whose token."""

from __future__ import annotations

import signal

import pytest

from duly.cli import main
from duly.cli.exits import UsageError
from duly.cli.parser import Arguments
from duly.dashboard.command import chosen_token, is_loopback
from duly.dashboard.errands import Errand, Errands, Stopped
from duly.jobs import Acted


def asked(host: str, token: str = "", viewer_token: str = "") -> Arguments:
    return Arguments(host=host, port=8800, token=token, viewer_token=viewer_token)


@pytest.mark.parametrize(
    "host",
    [
        "0.0.0.0",
        "::",
        "",
        "0",
        "192.168.1.7",
        "::ffff:10.0.0.1",
        "127.1",
        "example.org",
        "127.0.0.1.example.org",
    ],
)
def test_an_address_that_others_reach_needs_a_token(host: str) -> None:
    with pytest.raises(UsageError, match="DULY_TOKEN"):
        chosen_token(asked(host))


def test_with_a_token_it_may_listen_anywhere() -> None:
    assert chosen_token(asked("0.0.0.0", "a-token-of-some-length")) == "a-token-of-some-length"
    assert chosen_token(asked("0.0.0.0", viewer_token="a-token-of-some-length")) is None


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", "127.9.9.9"])
def test_on_this_machine_alone_a_token_is_made_up(host: str) -> None:
    first, second = chosen_token(asked(host)), chosen_token(asked(host))

    assert is_loopback(host)
    assert first is not None
    assert len(first) >= 32
    assert first != second


def test_the_command_says_what_is_wrong_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["dashboard", "--url", "memory://", "--host", "0.0.0.0"])

    assert code == 2
    assert capsys.readouterr().err.startswith("duly: 0.0.0.0 can be reached by others: set DULY_TOKEN")


def test_an_order_to_many_ends_between_two_parts_before_the_store_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent: list[Errand] = []

    def work(errand: Errand) -> None:
        errand.begin(1)
        errand.is_stopping.wait()
        errand.note(Acted(["a job"], {}))

    def serve(site: object, args: Arguments) -> None:
        sent.append(Errands().send(work))
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr("duly.dashboard.command._serve", serve)
    before = signal.getsignal(signal.SIGTERM)

    with pytest.raises(SystemExit) as leaving:
        main(["dashboard", "--url", "memory://"])

    assert leaving.value.code == 0
    assert sent[0].is_ended.is_set()
    assert sent[0].outcome.changed == 1
    assert isinstance(sent[0].error, Stopped)
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_port_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["dashboard", "--port", "70000"])

    assert "is not a port" in capsys.readouterr().err
