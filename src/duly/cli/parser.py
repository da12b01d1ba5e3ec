"""Reading a command's words: argparse, with an environment variable behind every option.

An option that was not given on the line is looked up as DULY_<OPTION>, then falls to its default. So a
variable never adds to what was written, it only stands in for it.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

YES = frozenset({"1", "true", "yes", "on"})
NO = frozenset({"0", "false", "no", "off"})


class Arguments(argparse.Namespace):
    """What a command was called with."""

    def get(self, name: str) -> Any:
        """The value of an option this command may not have."""
        return getattr(self, name, None)


@dataclass(frozen=True, slots=True)
class Option:
    """An option, its variable and its last resort."""

    action: argparse.Action
    variable: str
    default: Any
    is_setting: bool


class Parser(argparse.ArgumentParser):
    """One command's parser; mistakes are one line and exit code 2."""

    def __init__(self, *, prog: str, description: str, epilog: str = "") -> None:
        super().__init__(
            prog=prog,
            description=description,
            epilog=epilog,
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        self._options_given: list[Option] = []

    def option(self, *flags: str, default: Any = None, is_setting: bool = False, **terms: Any) -> None:
        """Add an option. `is_setting`: the application reads the variable itself, by its own precedence."""
        variable = variable_of(flags[-1])
        terms["help"] = f"{terms['help']} [{variable}]"
        action = self.add_argument(*flags, default=None, **terms)
        self._options_given.append(Option(action, variable, default, is_setting))

    @property
    def variables(self) -> list[str]:
        """Every environment variable this command understands."""
        return [option.variable for option in self._options_given]

    def read(self, words: Sequence[str], environment: Mapping[str, str] = os.environ) -> Arguments:
        """The words of the line, then the environment, then the defaults."""
        args = Arguments(words=list(words))
        _, unknown = self.parse_known_args(words, args)
        if unknown:
            self.error(self._complaint(unknown[0]))
        for option in self._options_given:
            if getattr(args, option.action.dest) is None:
                setattr(args, option.action.dest, self._fall_back(option, environment))
        return args

    def error(self, message: str) -> NoReturn:
        """One line, not the whole usage."""
        self.exit(2, f"{self.prog}: {message} (`{self.prog} --help` tells more)\n")

    def _complaint(self, word: str) -> str:
        if not word.startswith("-"):
            return f"{word!r} is one word too many"
        known = [flag for option in self._options_given for flag in option.action.option_strings]
        from difflib import get_close_matches  # long to load, and rarely needed

        near = get_close_matches(word.partition("=")[0], known, n=1)
        return f"there is no option {word}" + (f"; did you mean {near[0]}?" if near else "")

    def _fall_back(self, option: Option, environment: Mapping[str, str]) -> Any:
        text = environment.get(option.variable, "")
        if not text or option.is_setting:
            return option.default
        try:
            return _converted(option.action, text)
        except (ValueError, argparse.ArgumentTypeError) as error:
            self.error(f"{option.variable}={text!r}: {error}")


def variable_of(flag: str) -> str:
    """`--max-jobs` is DULY_MAX_JOBS."""
    return "DULY_" + flag.lstrip("-").replace("-", "_").upper()


def _converted(action: argparse.Action, text: str) -> Any:
    if isinstance(action, Raise) and text.isdigit():
        return int(text)
    if action.nargs == 0:
        return _as_switch(text)
    value: Any = action.type(text) if callable(action.type) else text
    if action.choices is not None and value not in action.choices:
        raise ValueError(f"it takes one of {', '.join(map(str, action.choices))}")
    return value


def _as_switch(text: str) -> bool:
    word = text.strip().lower()
    if word in YES | NO:
        return word in YES
    raise ValueError("it takes 1 or 0, true or false, yes or no, on or off")


def names(text: str) -> list[str]:
    """`a,b` as a list; for options that may also be repeated."""
    found = [name.strip() for name in text.split(",") if name.strip()]
    if not found:
        raise argparse.ArgumentTypeError("it takes a name, or several with commas between")
    return found


def at_least_one(text: str) -> int:
    """A whole number from 1."""
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return number


_UNITS = {"": 1, "b": 1, "k": 2**10, "kb": 2**10, "m": 2**20, "mb": 2**20, "g": 2**30, "gb": 2**30}


def size(text: str) -> int:
    """Bytes from `300MB`, `1.5GB` or a plain number."""
    written = text.strip().lower().replace(" ", "")
    number = written.rstrip("bgkm")
    unit = written[len(number) :]
    try:
        amount = int(float(number) * _UNITS[unit])
    except (ValueError, KeyError, OverflowError):
        amount = 0
    if amount < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size: write it like 300MB or 1.5GB")
    return amount


class Names(argparse.Action):
    """Collects `-q a -q b,c` into one list."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        setattr(namespace, self.dest, [*(getattr(namespace, self.dest) or []), *values])


class Raise(argparse.Action):
    """Counts `-vv`."""

    def __init__(self, option_strings: Sequence[str], dest: str, **terms: Any) -> None:
        super().__init__(option_strings, dest, nargs=0, **terms)

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        setattr(namespace, self.dest, (getattr(namespace, self.dest) or 0) + 1)
