"""What the report says about figures: medians, ratios, and whether goals are met."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.__main__ import BEGIN, END, insert
from benchmarks.chart import chart
from benchmarks.contenders import CONTENDERS, DULY, POSTGRES, RAW, REDIS, SQLITE
from benchmarks.figures import NAMES, Failure, Figures, Sample, load, save
from benchmarks.goals import GOALS, GainOfLimit, OfLimit, Over, Own, TimesPeer, least, most
from benchmarks.quantiles import quantile
from benchmarks.report import report, unmet
from benchmarks.works import EVERY_WORK


def figures(*found: tuple[str, str, str, float]) -> Figures:
    """Readings of one work each, in the order given."""
    samples = [
        Sample(store, system, "drain", number, name, value)
        for number, (store, system, name, value) in enumerate(found, start=1)
    ]
    return Figures(samples)


def drained(own: float, peer: float, raw: float) -> Figures:
    return figures(
        (POSTGRES, DULY, "drain", own),
        (POSTGRES, "PgQueuer", "drain", peer),
        (POSTGRES, "Oban", "drain", peer / 2),
        (POSTGRES, RAW, "drain", raw),
    )


def test_a_figure_is_the_median_of_its_samples() -> None:
    found = figures(*[(SQLITE, DULY, "drain", value) for value in (10.0, 90.0, 20.0)])

    spread = found.spread(SQLITE, DULY, "drain")

    assert spread is not None
    assert (spread.median, spread.least, spread.most) == (20.0, 10.0, 90.0)


def test_the_best_peer_is_the_fastest_where_more_is_better() -> None:
    assert drained(1, 8_000, 1).best_peer(POSTGRES, "drain") == ("PgQueuer", 8_000)


def test_the_best_peer_is_the_lowest_where_less_is_better() -> None:
    found = figures(
        (REDIS, DULY, "pick-up p50", 9), (REDIS, "arq", "pick-up p50", 90), (REDIS, "Huey", "pick-up p50", 1)
    )

    assert found.best_peer(REDIS, "pick-up p50") == ("Huey", 1)


def test_neither_duly_nor_the_limit_is_a_peer() -> None:
    found = figures((POSTGRES, DULY, "drain", 10), (POSTGRES, RAW, "drain", 20))

    assert found.best_peer(POSTGRES, "drain") is None


@pytest.mark.parametrize(("own", "is_met"), [(35_000, True), (27_999, False)])
def test_a_goal_against_the_best_peer_is_judged_by_the_ratio(own: float, is_met: bool) -> None:
    goal = least(TimesPeer("drain"), 3.5, POSTGRES)

    assert goal.is_met(drained(own, 8_000, 50_000), POSTGRES) is is_met


@pytest.mark.parametrize(("own", "is_met"), [(35_000, True), (34_999, False)])
def test_a_goal_against_the_limit_is_judged_by_the_part(own: float, is_met: bool) -> None:
    goal = least(OfLimit("drain"), 0.7, POSTGRES)

    assert goal.is_met(drained(own, 8_000, 50_000), POSTGRES) is is_met


@pytest.mark.parametrize(("value", "is_met"), [(2.2, True), (2.21, False)])
def test_a_bound_from_above_is_met_from_below(value: float, is_met: bool) -> None:
    goal = most(Own("pick-up p50"), 2.2, POSTGRES)

    assert goal.is_met(figures((POSTGRES, DULY, "pick-up p50", value)), POSTGRES) is is_met


def test_one_figure_may_be_the_measure_of_another() -> None:
    found = figures((SQLITE, DULY, "drain", 200), (SQLITE, DULY, "drain, sync tasks", 90))

    assert Over("drain, sync tasks", "drain").read(found, SQLITE) == pytest.approx(0.45)


@pytest.mark.parametrize(
    ("one", "two", "raw_one", "raw_two", "gain"),
    [(100, 140, 100, 150, 0.8), (100, 100, 100, 150, 0.0), (100, 110, 100, 90, 1.0), (100, 70, 100, 90, 0.7)],
    ids=["most of it", "nothing", "more than the raw loop", "a loss"],
)
def test_a_gain_is_a_part_of_what_the_raw_loop_gains(
    one: float, two: float, raw_one: float, raw_two: float, gain: float
) -> None:
    found = figures(
        (REDIS, DULY, "drain", one),
        (REDIS, DULY, "drain, 2 workers", two),
        (REDIS, RAW, "drain", raw_one),
        (REDIS, RAW, "drain, 2 workers", raw_two),
    )

    assert GainOfLimit("drain, 2 workers", "drain").read(found, REDIS) == pytest.approx(gain)


def test_without_a_peer_there_is_no_verdict() -> None:
    found = figures((SQLITE, DULY, "drain", 30_000))

    assert least(TimesPeer("drain"), 18, SQLITE).is_met(found, SQLITE) is None
    assert not [line for line in unmet(found) if line.startswith("sqlite: drain ")]


def test_a_missed_goal_is_told_with_what_was_found() -> None:
    assert "postgres: drain ≥ 3.5 × the best peer, found 2.00" in unmet(drained(16_000, 8_000, 20_000))


def test_the_table_has_figure_peer_limit_and_verdict_in_one_row() -> None:
    found = drained(30_000, 8_000, 50_000)
    found.samples.append(Sample(POSTGRES, RAW, "drain", 1, "drain, one table", 40_000))
    text = report(found)

    row = next(line for line in text.splitlines() if line.startswith("| drain, jobs/s"))
    assert [cell.strip() for cell in row.split("|")[2:7]] == [
        "30,000",
        "PgQueuer 8,000",
        "3.8",
        "50,000",
        "60%",
    ]
    assert row.endswith("| yes; yes |")  # of the loop that the goal names, which is another than the limit
    assert "Further raw loops: drain, one table 40,000." in text


def test_a_system_that_failed_is_told_once_with_the_reason() -> None:
    found = drained(1, 1, 1)
    found.failures.append(Failure(POSTGRES, "Oban", "install", 1, "NotInstalled: it needs Python 3.12"))
    found.failures += [Failure(REDIS, "SAQ", work, 1, "Broken: no module") for work in ("bulk", "drain")]

    assert "- Oban on postgres: NotInstalled: it needs Python 3.12 (install 1)" in report(found)
    assert "- SAQ on redis: Broken: no module (bulk 1, drain 1)" in report(found)


def test_figures_come_back_from_their_file(tmp_path: Path) -> None:
    found = drained(1, 2, 3)
    found.failures.append(Failure(REDIS, "arq", "drain", 2, "gone"))
    found.about["machine"] = "2 cores"

    save(found, tmp_path / "results.json")

    assert load(tmp_path / "results.json") == found


def test_measuring_anew_replaces_what_was_measured() -> None:
    found = figures((SQLITE, DULY, "drain", 1), (SQLITE, DULY, "drain", 2))

    found.forget(SQLITE, DULY, "drain", 1)

    assert [each.value for each in found.samples] == [2]
    assert not found.has(SQLITE, DULY, "drain", 1)
    assert found.has(SQLITE, DULY, "drain", 2)


def test_the_chart_has_a_bar_for_each_system() -> None:
    drawn = chart(drained(30_000, 8_000, 40_000))

    assert drawn.count("<rect") == 1 + 4
    assert ">30,000<" in drawn


def test_tables_are_written_between_the_marks_of_a_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n", encoding="utf-8")

    insert(page, "new\n")

    assert page.read_text(encoding="utf-8") == f"before\n{BEGIN}\n\nnew\n\n{END}\nafter\n"


def test_every_goal_is_about_a_figure_that_has_a_name() -> None:
    assert {goal.reading.name for goal in GOALS} <= NAMES.keys()


def test_everybody_does_work_that_exists() -> None:
    assert {work for each in CONTENDERS for work in each.works} == set(EVERY_WORK)


def test_a_quantile_lies_between_its_neighbours() -> None:
    assert quantile([4, 1, 3, 2], 0.5) == 2.5
    assert quantile([], 0.5) is None
