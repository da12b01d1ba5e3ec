"""Public names that are loaded when first used."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from duly.lazily import lookup


def test_a_name_is_loaded_from_its_home_and_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    package, home = ModuleType("shop"), ModuleType("shop.tills")
    home.Till = "a till"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "shop", package)
    monkeypatch.setitem(sys.modules, "shop.tills", home)

    found = lookup("shop", {"Till": "tills"})("Till")

    assert (found, vars(package)["Till"]) == ("a till", "a till")


def test_a_name_that_is_not_public_is_refused_as_any_module_does() -> None:
    with pytest.raises(AttributeError, match="module 'shop' has no attribute 'Tyll'"):
        lookup("shop", {"Till": "tills"})("Tyll")
