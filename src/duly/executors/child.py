"""What a child process runs: one errand after another, each in the main thread.

Start-up time is paid by the first run of every child, so this file imports little, and reads and writes
descriptors instead of importing `socket`.
"""

from __future__ import annotations

import ctypes
import importlib
import io
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial, reduce
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import module_from_spec
from typing import Any, Final, NoReturn

from duly.errors import LeaseLost, SoftLimitExceeded
from duly.executors.frames import (
    MAIN_ALIAS,
    MAIN_IS_LOADING,
    NUMBER,
    FrameReader,
    Kind,
    frame,
    numbered,
    pack_failure,
    unpack_errand,
    unpack_hello,
)
from duly.executors.interrupts import INTERRUPTS

Entry = Callable[[bytes, Callable[[bytes], None]], bytes]

CHUNK: Final = 2**16
PR_SET_PDEATHSIG: Final = 1


def main() -> None:
    """Serve the parent that passed us two descriptors, until it closes them."""
    wire, control = map(int, sys.argv[1:3])
    for descriptor in (wire, control):
        os.set_inheritable(descriptor, False)  # noqa: FBT003 - positional only
    _die_with_parent()
    _leave_ending_to_the_parent()
    _show_lines_at_once()
    INTERRUPTS.install()
    threading.Thread(target=_watch, args=(control,), name="duly-watch", daemon=True).start()
    Child(wire).serve()


class Child:
    """The child's side of the wire."""

    def __init__(self, wire: int) -> None:
        self._wire = wire
        self._writing = threading.Lock()  # bodies may emit from threads of their own
        self._main_file: str | None = None

    def serve(self) -> None:
        """Run what comes until the parent closes its side."""
        for kind, payload in _frames(self._wire):
            if kind is Kind.HELLO:
                self._greet(payload)
            elif kind is Kind.ERRAND:
                self._run(*unpack_errand(payload))

    def _greet(self, payload: bytes) -> None:
        search_path, self._main_file = unpack_hello(payload)
        sys.path[:] = [*search_path, *(place for place in sys.path if place not in search_path)]
        sys.argv[:] = [self._main_file or ""]

    def _run(self, number: int, entry: str, imports: list[str], message: bytes) -> None:
        INTERRUPTS.begin(number)
        try:
            function = self._prepare(entry, imports)
            self._write(frame(Kind.STARTED, NUMBER.pack(number)))
            result = INTERRUPTS.call(partial(function, message, partial(self._emit, number)))
            answer = frame(Kind.RESULT, NUMBER.pack(number), result)
        except BaseException as failure:  # SystemExit too: it ends the body, not the child
            answer = frame(Kind.FAILED, NUMBER.pack(number), _described(failure))
        self._write(answer)

    def _prepare(self, entry: str, imports: list[str]) -> Entry:
        for name in imports:
            self._module(name)
        module, _, path = entry.partition(":")
        found: Any = reduce(getattr, path.split("."), self._module(module))
        function: Entry = found
        return function

    def _module(self, name: str) -> object:
        if name == "__main__" and MAIN_ALIAS not in sys.modules:
            _load_main(self._main_file)
        return importlib.import_module(name)

    def _emit(self, number: int, message: bytes) -> None:
        """Send a message of the body, shielded: a frame cut in two by an exception would spoil the wire."""
        write = partial(self._write, frame(Kind.EMIT, NUMBER.pack(number), message))
        if threading.current_thread() is threading.main_thread():
            INTERRUPTS.shielded(write)
        else:
            write()

    def _write(self, message: bytes) -> None:
        with self._writing:
            rest = memoryview(message)
            while rest:
                rest = rest[os.write(self._wire, rest) :]


def _frames(descriptor: int) -> Iterator[tuple[Kind, bytes]]:
    reader = FrameReader()
    while chunk := os.read(descriptor, CHUNK):
        yield from reader.feed(chunk)


def _watch(control: int) -> NoReturn:
    """Pass on what the parent wants from the body; when the parent is gone, so are we, at once."""
    exceptions: dict[Kind, type[BaseException]] = {Kind.SOFT_LIMIT: SoftLimitExceeded, Kind.STOP: LeaseLost}
    try:
        for kind, payload in _frames(control):
            INTERRUPTS.request(numbered(payload)[0], exceptions[kind])
    finally:
        _end_group()


def _end_group() -> NoReturn:
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)  # the body's own subprocesses with us
    os._exit(1)


def _die_with_parent() -> None:
    """The kernel ends us with the parent even while C code holds the interpreter (Linux only)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _leave_ending_to_the_parent() -> None:
    """Do nothing on what a terminal or a service sends to all processes alike.

    A function instead of SIG_IGN, because an ignored signal stays ignored in programs the body starts.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda _number, _frame: None)


def _show_lines_at_once() -> None:
    """A killed child must not take what its body printed with it."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=True)


def _load_main(main_file: str | None) -> None:
    """Load the parent's script under another name: its `if __name__ == "__main__"` part stays quiet."""
    if main_file is None:
        raise ImportError(
            "The function lives in __main__, which is no file here. Move it to a module that can be imported."
        )
    loader = SourceFileLoader(MAIN_ALIAS, main_file)
    module = module_from_spec(ModuleSpec(MAIN_ALIAS, loader, origin=main_file))
    module.__file__ = main_file
    before = sys.modules["__main__"]
    sys.modules[MAIN_ALIAS] = sys.modules["__main__"] = module
    vars(module)[MAIN_IS_LOADING] = True
    try:
        loader.exec_module(module)
    except BaseException:
        del sys.modules[MAIN_ALIAS]
        sys.modules["__main__"] = before
        raise
    finally:
        del vars(module)[MAIN_IS_LOADING]


def _described(failure: BaseException) -> bytes:
    import traceback  # only what fails pays for it

    kind, text = type(failure), "".join(traceback.format_exception(failure))
    return pack_failure(f"{kind.__module__}.{kind.__qualname__}", text)
