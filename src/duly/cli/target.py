"""Which application or store a command speaks to.

`module:object` names an application, the current directory being on the path; where no code is needed
a store's URL is enough. Every way to get it wrong has a sentence of its own.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import sys
import traceback
from collections.abc import Generator
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any

from duly.cli.exits import UsageError
from duly.cli.parser import Arguments, Parser
from duly.cli.words import did_you_mean
from duly.errors import StoreUnavailable

if TYPE_CHECKING:
    from duly.app import App

FORMS = "module:object, module.object, or a module with one Duly in it"


def offer_app(parser: Parser, *, positional: bool) -> None:
    """`-a module:object` everywhere; as a plain word where no other word is expected."""
    if positional:
        parser.add_argument("target", nargs="?", metavar="APP", help=f"the application: {FORMS}")
    parser.option("-a", "--app", help=f"the application: {FORMS}")


def offer_store(parser: Parser, *, positional: bool = False) -> None:
    """An application, or just a store."""
    offer_app(parser, positional=positional)
    parser.option("--url", is_setting=True, help="the store, where no application is needed")


@contextmanager
def opened(args: Arguments, *, creates: bool = False) -> Generator[App]:
    """The application the words name; its store is closed at the end."""
    app = chosen(args)
    if not creates:
        refuse_missing_file(app.settings.url)
    try:
        yield app
    finally:
        app.close()


def chosen(args: Arguments) -> App:
    """By precedence: a word, --url, -a or DULY_APP, and last the store the settings name."""
    word, url = args.get("target"), args.get("url")
    if word and url:
        raise UsageError(f"say either the application {word!r} or --url, not both")
    if url:
        return bare(url)
    if name := word or args.app:
        return find_app(name)
    return bare(None)


def bare(url: str | None) -> App:
    """A store without code; with no URL, the one DULY_URL or pyproject.toml names."""
    put_here_on_path()
    from duly.app import App

    return App(url)


def has_code(app: App) -> bool:
    """Whether an application was named, so that its tasks are known."""
    return bool(app.tasks)


def refuse_missing_file(url: str) -> None:
    """Looking must not create a database."""
    if not url.startswith("sqlite:"):
        return
    from duly.stores.sqlite.address import parse

    path = parse(url).path
    if not os.path.exists(path):
        raise StoreUnavailable(
            f"there is no {path} yet: nothing was enqueued and no worker has started. "
            "Say which store: -a module:object, --url sqlite:///file.db or DULY_URL."
        )


# finding an application


def find_app(target: str) -> App:
    """The application behind `module:object`, `module.object` or `module`."""
    put_here_on_path()
    if target.endswith(".py") or ".py:" in target or "/" in target:
        raise UsageError(f"{target!r} is a file; say the module: {_as_module(target)!r}")
    module_name, colon, path = target.partition(":")
    if not all(
        part.isidentifier() for part in [*module_name.split("."), *(path.split(".") if colon else [])]
    ):
        raise UsageError(f"{target!r} names no application; write {FORMS}")
    if colon:
        module = _import(target, module_name)
        return _as_app(target, _walk(target, module, path.split(".")), module)
    return _as_app(
        target, _by_dots(target, module_name.split(".")), _import(target, module_name.split(".")[0])
    )


def put_here_on_path() -> None:
    """As `python -m` would: the application is usually right here."""
    here = os.getcwd()
    if here not in sys.path and "" not in sys.path:
        sys.path.insert(0, here)


def _as_module(target: str) -> str:
    file, colon, name = target.partition(":")
    return file.removesuffix(".py").strip("./").replace("/", ".") + (f":{name}" if colon else "")


def _by_dots(target: str, parts: list[str]) -> Any:
    """Modules as far as they go, attributes after that."""
    found: Any = _import(target, parts[0])
    for position, part in enumerate(parts[1:], start=2):
        if isinstance(found, ModuleType) and not hasattr(found, part) and hasattr(found, "__path__"):
            found = _import(target, ".".join(parts[:position]))
        else:
            found = _walk(target, found, [part])
    return found


def _import(target: str, name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            raise UsageError(_no_module(target, error.name)) from error
        raise UsageError(_broken(name, error)) from error
    except (Exception, SystemExit) as error:
        raise UsageError(_broken(name, error)) from error


def _no_module(target: str, name: str) -> str:
    parent, _, leaf = name.rpartition(".")
    folder = getattr(sys.modules.get(parent), "__path__", None) if parent else [os.getcwd()]
    if folder is None:
        return f"{target!r}: {parent!r} is a module, not a package; it holds no {leaf!r}"
    near = did_you_mean(leaf, [module.name for module in pkgutil.iter_modules(folder)])
    return f"{target!r}: there is no module {name!r} in {next(iter(folder))} or on the path. {near}".rstrip()


def _broken(name: str, error: BaseException) -> str:
    """The user's own mistake while importing: where, and what."""
    if isinstance(error, SyntaxError) and error.filename:
        place = f"{error.filename}, line {error.lineno}"
    else:
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_users(frame.filename)]
        place = f"{frames[-1].filename}, line {frames[-1].lineno}" if frames else "while importing"
    what = getattr(error, "msg", None) or str(error)
    return f"{name!r} cannot be imported: {type(error).__name__}: {what} ({place}; --traceback shows all)"


def _is_users(filename: str) -> bool:
    package = os.path.dirname(os.path.dirname(__file__))
    return not filename.startswith(("<frozen", package)) and filename != importlib.__file__


def _walk(target: str, found: Any, path: list[str]) -> Any:
    for name in path:
        if not hasattr(found, name):
            where = getattr(found, "__file__", None) or repr(found)
            hint = did_you_mean(name, _candidates(found), _listed(found))
            raise UsageError(f"{target!r}: there is no {name!r} in {where}. {hint}".rstrip())
        found = getattr(found, name)
    return found


def _candidates(found: Any) -> list[str]:
    return list(_apps_in(found)) or [name for name in dir(found) if not name.startswith("_")]


def _apps_in(found: Any) -> dict[str, App]:
    from duly.app import App

    members: dict[str, Any] = getattr(found, "__dict__", {})
    return {name: value for name, value in members.items() if isinstance(value, App)}


def _listed(found: Any) -> str:
    names = sorted(_apps_in(found))
    return f"It has {', '.join(map(repr, names))}." if names else "It has no Duly in it."


def _as_app(target: str, found: Any, module: ModuleType) -> App:
    from duly.app import App

    if isinstance(found, App):
        return found
    if not isinstance(found, ModuleType):
        raise UsageError(f"{target!r} is a {type(found).__name__}, not a Duly. {_listed(module)}")
    apps = _apps_in(found)
    if len({id(app) for app in apps.values()}) == 1:
        return next(iter(apps.values()))
    if apps:
        choices = " or ".join(f"{found.__name__}:{name}" for name in sorted(apps))
        raise UsageError(f"{target!r} has several applications; say which: {choices}")
    raise UsageError(f"{target!r} has no Duly in it ({found.__file__}). Make one: app = Duly()")
