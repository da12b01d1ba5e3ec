"""A worker of a run: `duly worker` on the shop, which does not outlive its runner."""

from __future__ import annotations

import sys

from tests.chaos.journal import die_with_parent

from duly import cli

if __name__ == "__main__":
    die_with_parent()
    sys.exit(cli.main(["worker", "tests.reactive.convergence.shop:app"]))
