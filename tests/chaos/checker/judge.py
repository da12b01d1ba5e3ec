"""All checks over one history, and a verdict for people."""

from __future__ import annotations

from collections import Counter
from typing import Final

from tests.chaos.checker import bounds, budgets, clocks, effects, fences, keys, leaks, requests
from tests.chaos.checker.history import History
from tests.chaos.checker.witness import Check, Witness

CHECKS: Final[tuple[Check, ...]] = (
    requests.no_loss,
    requests.success_has_run,
    requests.no_swallow,
    requests.no_phantom,
    requests.atomic_enqueue,
    requests.fidelity,
    effects.exactly_once_effect,
    fences.at_most_once_start,
    fences.terminal_is_final,
    fences.epoch_monotone,
    fences.fencing,
    fences.no_overlap,
    fences.self_fence,
    clocks.one_tick,
    clocks.tick_complete,
    clocks.never_early,
    keys.gen_monotone,
    keys.superseded_silent,
    keys.older_never_claimed,
    keys.cancel_final,
    keys.dedup_window,
    keys.perpetual_alive,
    keys.lock_exclusive,
    budgets.retry_policy,
    budgets.crash_cap,
    budgets.hard_limit,
    budgets.concurrency_limit,
    budgets.rate_limit,
    bounds.drain_stop,
    bounds.rescue_bound,
    bounds.reconnect_bound,
    leaks.no_leak,
    leaks.no_collapse,
)


def judge(history: History) -> list[Witness]:
    """Every violation found."""
    return [witness for check in CHECKS for witness in check(history)]


def sizes(history: History) -> str:
    """How much there was to judge, in one paragraph."""
    faults = Counter(fault.kind for fault in history.faults)
    unknown = sum(not asked.is_acknowledged for asked in history.asked)
    refused = sum(settle.answer == "lost" for settle in history.settles)
    states = Counter(row.state for row in history.last)
    latest = max((seconds for _, seconds in history.lags), default=0.0)
    return "\n".join(
        [
            f"jobs {len(history.last):,} ({_counted(states)}), requests {len(history.asked):,} "
            f"({unknown:,} without an answer)",
            f"runs {len(history.bodies):,}, loans {len(history.loans):,}, verdicts {len(history.settles):,} "
            f"({refused:,} refused), beats {len(history.renewals):,}",
            f"faults {sum(faults.values()):,}: {_counted(faults)}",
            f"processes {len(history.lives):,}, latest wake-up {latest * 1000:.0f} ms",
        ]
    )


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts.most_common())
