"""The figures as tables: what Duly reaches beside the best peer and the limit, and whether that will do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchmarks.contenders import DULY, DURABILITY, RAW, STORES
from benchmarks.figures import NAMES, Figures, Name, Spread
from benchmarks.goals import GOALS, Goal, ratio

HEAD = ("what", "Duly", "best peer", "× peer", "limit", "of limit", "goal", "met")
NOTHING = "–"


def report(figures: Figures) -> str:
    """All tables, in Markdown."""
    parts = [about(figures), *(section(figures, store) for store in STORES if figures.systems(store))]
    return "\n\n".join(filter(None, [*parts, versions(figures), failures(figures)])) + "\n"


def about(figures: Figures) -> str:
    told = figures.about.get("machine")
    return "" if not told else f"{told} Medians of {repetitions(figures)}; least and most in brackets."


def repetitions(figures: Figures) -> str:
    amount = max((each.repetition for each in figures.samples), default=0)
    return "one repetition" if amount == 1 else f"{amount} repetitions"


def section(figures: Figures, store: str) -> str:
    """One store: its goals first, then everybody."""
    head = f"### {DURABILITY[store]}"
    parts = [
        head,
        table(HEAD, list(rows(figures, store))),
        further(figures, store),
        everybody(figures, store),
    ]
    return "\n\n".join(filter(None, parts))


def rows(figures: Figures, store: str) -> Iterator[Sequence[str]]:
    for name in NAMES.values():
        own = figures.spread(store, DULY, name.title)
        if own is not None:
            yield row(figures, store, name, own)


def row(figures: Figures, store: str, name: Name, own: Spread) -> Sequence[str]:
    best, limit = figures.best_peer(store, name.title), figures.limit(store, name.title)
    goals = goals_of(store, name.title)
    return (
        f"{name.title}, {name.unit}",
        spread(own, name),
        f"{best[0]} {number(best[1], name)}" if best else NOTHING,
        times(ratio(own.median, best[1] if best else None)),
        NOTHING if limit is None else number(limit, name),
        percent(ratio(own.median, limit)),
        "; ".join(map(str, goals)) or NOTHING,
        "; ".join(verdict(goal, figures, store) for goal in goals) or NOTHING,
    )


def further(figures: Figures, store: str) -> str:
    """Raw loops beside the limits, which some goals name."""
    found = [
        f"{name.title} {spread(raw, name)}"
        for name in NAMES.values()
        if (raw := figures.spread(store, RAW, name.title)) is not None
        and figures.spread(store, DULY, name.title) is None
    ]
    return f"Further raw loops: {'; '.join(found)}." if found else ""


def goals_of(store: str, name: str) -> list[Goal]:
    return [goal for goal in GOALS if goal.reading.name == name and store in goal.stores]


def verdict(goal: Goal, figures: Figures, store: str) -> str:
    """Yes, or by how much not."""
    found, is_met = goal.reading.read(figures, store), goal.is_met(figures, store)
    if is_met is None or found is None:
        return NOTHING
    return "yes" if is_met else f"**no**, {found:.2f}"


def everybody(figures: Figures, store: str) -> str:
    """All systems at what several of them were measured at."""
    systems = figures.systems(store)
    shared = [
        name
        for name in NAMES.values()
        if any(figures.spread(store, peer, name.title) for peer in figures.peers(store))
    ]
    if not shared:
        return ""
    lines = [[name.title, *cells(figures, store, name)] for name in shared]
    return table(["everybody", *systems], lines)


def cells(figures: Figures, store: str, name: Name) -> list[str]:
    found = [figures.spread(store, system, name.title) for system in figures.systems(store)]
    return [NOTHING if each is None else spread(each, name) for each in found]


def versions(figures: Figures) -> str:
    """Who ran with what."""
    systems: dict[str, dict[str, str]] = figures.about.get("systems", {})
    if not systems:
        return ""
    lines = [f"- **{name}**: {told['versions']}. {told['settings']}." for name, told in systems.items()]
    return "\n".join(["### Versions and settings", "", *lines])


def failures(figures: Figures) -> str:
    if not figures.failures:
        return ""
    works: dict[str, list[str]] = {}  # what keeps a system from starting is told once
    for each in figures.failures:
        which = works.setdefault(f"{each.system} on {each.store}: {each.reason}", [])
        which.append(f"{each.work} {each.repetition}")
    lines = [f"- {reason} ({', '.join(which)})" for reason, which in works.items()]
    return "\n".join(["### What could not be measured", "", *lines])


def table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(line)} |" for line in [head, ["---"] * len(head), *lines])


def spread(found: Spread, name: Name) -> str:
    middle = number(found.median, name)
    if len(found.values) == 1:
        return middle
    return f"{middle} ({number(found.least, name)}–{number(found.most, name)})"


def number(value: float, name: Name) -> str:
    return f"{value:,.{name.decimals}f}"


def times(value: float | None) -> str:
    if value is None:
        return NOTHING
    return f"{value:.1f}" if value >= 0.1 else f"{value:.2f}"


def percent(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.0%}"


def unmet(figures: Figures) -> list[str]:
    """The goals that were missed, one line each."""
    return [
        f"{store}: {goal.reading.name} {goal}, found {goal.reading.read(figures, store):.2f}"
        for goal in GOALS
        for store in goal.stores
        if goal.is_met(figures, store) is False
    ]
