"""Every way to name an application, and a sentence for every way to get it wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.cli.arrange import Command, Shop

from duly.cli.exits import UsageError
from duly.cli.target import find_app
from duly.ids import new_id


def write(folder: Path, text: str) -> str:
    name = f"made_{new_id()[-8:]}"
    (folder / f"{name}.py").write_text(text)
    return name


@pytest.mark.parametrize("form", ["{0}:app", "{0}.app", "{0}"])
def test_colon_dot_and_the_module_alone_find_the_same(shop: Shop, form: str) -> None:
    assert find_app(form.format(shop.module)) is shop.app


def test_the_current_directory_is_on_the_path(folder: Path) -> None:
    name = write(folder, "from duly import Duly\napp = Duly('memory://')\n")

    assert find_app(name).settings.url == "memory://"


def test_an_application_in_a_package_is_found_by_dots_alone(folder: Path) -> None:
    package = f"pack_{new_id()[-8:]}"
    (folder / package).mkdir()
    (folder / package / "__init__.py").write_text("")
    (folder / package / "tasks.py").write_text("from duly import Duly\nqueue = Duly('memory://')\n")

    assert (
        find_app(f"{package}.tasks.queue")
        is find_app(f"{package}.tasks")
        is find_app(f"{package}.tasks:queue")
    )


def test_an_attribute_of_an_object_can_be_named(folder: Path) -> None:
    name = write(folder, "from duly import Duly\nclass Site: app = Duly('memory://')\n")

    assert find_app(f"{name}:Site.app").settings.url == "memory://"


def test_a_mistyped_module_suggests_one_that_is_here(shop: Shop) -> None:
    with pytest.raises(
        UsageError, match=f"there is no module '{shop.module}x' in .* Did you mean '{shop.module}'"
    ):
        find_app(f"{shop.module}x:app")


def test_a_mistyped_object_suggests_the_application(shop: Shop) -> None:
    with pytest.raises(UsageError, match=r"there is no 'ap' in .* Did you mean 'app'"):
        find_app(f"{shop.module}:ap")


def test_an_object_unlike_any_names_the_applications_there(shop: Shop) -> None:
    with pytest.raises(UsageError, match=r"no 'zzz' in .* It has 'app'"):
        find_app(f"{shop.module}:zzz")


def test_an_object_of_another_kind_is_named_for_what_it_is(shop: Shop) -> None:
    with pytest.raises(UsageError, match=r"is a Task, not a Duly\. It has 'app'"):
        find_app(f"{shop.module}:mail")


def test_a_module_without_an_application_says_how_to_make_one(folder: Path) -> None:
    name = write(folder, "x = 1\n")

    with pytest.raises(UsageError, match=r"has no Duly in it .* app = Duly\(\)"):
        find_app(name)


def test_a_module_with_two_applications_asks_which(folder: Path) -> None:
    name = write(folder, "from duly import Duly\none = Duly('memory://')\ntwo = Duly('memory://')\n")

    with pytest.raises(UsageError, match=f"say which: {name}:one or {name}:two"):
        find_app(name)


def test_one_application_under_two_names_is_one(folder: Path) -> None:
    name = write(folder, "from duly import Duly\none = Duly('memory://')\ntwo = one\n")

    assert find_app(name).settings.url == "memory://"


def test_a_file_name_is_turned_into_the_module_to_say(folder: Path) -> None:
    with pytest.raises(UsageError, match="is a file; say the module: 'shop:app'"):
        find_app("./shop.py:app")


@pytest.mark.parametrize("target", ["", ":", "shop:", ":app", "1shop:app", "shop app", "shop..app"])
def test_what_names_nothing_gets_the_forms(folder: Path, target: str) -> None:
    with pytest.raises(UsageError, match="names no application; write module:object"):
        find_app(target)


@pytest.mark.parametrize(
    ("source", "what", "line"),
    [
        ("\n1 / 0\n", "ZeroDivisionError", 2),
        ("import no_such_library_here\n", "ModuleNotFoundError: No module named 'no_such_library_here'", 1),
        ("\n\ndef (:\n", "SyntaxError", 3),
        ("raise SystemExit(3)\n", "SystemExit: 3", 1),
        ("import duly\nduly.Duly(lease='soon')\n", "DefinitionError: lease='soon'", 2),
    ],
)
def test_a_broken_module_is_told_with_its_place(folder: Path, source: str, what: str, line: int) -> None:
    name = write(folder, source)

    with pytest.raises(UsageError, match=rf"'{name}' cannot be imported: {what}.*{name}.py, line {line}"):
        find_app(f"{name}:app")


def test_a_mistake_is_one_line_and_exit_code_two(duly: Command, shop: Shop) -> None:
    answer = duly("status", f"{shop.module}:ap")

    assert answer.code == 2
    assert answer.out == ""
    assert answer.err.startswith("duly: ")
    assert answer.err.count("\n") == 1


def test_a_mistake_in_json_is_a_document_too(duly: Command, shop: Shop) -> None:
    answer = duly("status", f"{shop.module}:ap", "--json")

    assert answer.code == 2
    assert answer.document["kind"] == "UsageError"
    assert "Did you mean 'app'" in answer.document["error"]


def test_the_application_can_come_from_the_environment(
    duly: Command, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DULY_APP", shop.target)

    assert duly("status").code == 0


def test_a_store_alone_is_enough_to_look(duly: Command, shop: Shop) -> None:
    answer = duly("status", "--url", "sqlite:///duly.db", "--json")

    assert (answer.code, answer.document["url"]) == (0, "sqlite:///duly.db")


def test_both_an_application_and_a_url_are_one_too_many(duly: Command, shop: Shop) -> None:
    answer = duly("status", shop.target, "--url", "sqlite:///duly.db")

    assert answer.code == 2
    assert "not both" in answer.err


def test_looking_does_not_create_a_file(duly: Command, folder: Path) -> None:
    answer = duly("status")

    assert answer.code == 3
    assert f"there is no {folder}/duly.db yet" in answer.err
    assert list(folder.iterdir()) == []


def test_a_url_nobody_knows_is_a_mistake_and_keeps_its_password(duly: Command, folder: Path) -> None:
    answer = duly("status", "--url", "mysql://ann:s3cret@db/shop")

    assert answer.code == 2
    assert "mysql://ann:***@db/shop" in answer.err
    assert "s3cret" not in answer.err
