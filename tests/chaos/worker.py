"""A worker of a chaos run: `duly worker` on the shop, with a witness between it and its store."""

from __future__ import annotations

import os
import sys
import time
from typing import Final

from tests.chaos import shop
from tests.chaos.audit import audited
from tests.chaos.journal import die_with_parent

from duly import cli
from duly.errors import StoreBusy, StoreUnavailable
from duly.stores.contract import Store

TARGET: Final = "tests.chaos.shop:app"


def opened() -> Store:
    """The store, once it can be had: a worker may be started while its server is away."""
    while True:
        try:
            return shop.app.store
        except StoreUnavailable as error:
            shop.journal.write("no_store", error=str(error)[:300])
            if shop.app.settings.url.startswith("sqlite:") and not isinstance(error, StoreBusy):
                time.sleep(0.2)  # a full disk is emptied again
        time.sleep(0.2)


def main() -> int:
    die_with_parent()
    shop.journal.write("born", parent=os.getppid())
    store = audited(opened(), shop.journal)
    with shop.app.standing_in(store, shop.app.clock):
        code = cli.main(["worker", TARGET, *sys.argv[1:]])
    shop.journal.write("exit", code=code)
    return int(code or 0)


if __name__ == "__main__":
    sys.exit(main())
