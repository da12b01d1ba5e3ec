"""One child process as the parent holds it: its two channels, its process id, and how it is ended."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Final

import duly.executors
from duly.executors.frames import NUMBER, FrameReader, Kind, frame

CHUNK: Final = 2**18
PACKAGE_ROOT: Final = str(Path(duly.executors.__path__[0]).parent.parent)
# The child finds this very copy of the package, also where only the parent's sys.path leads to it.
BOOT: Final = (
    "import sys; root = sys.argv.pop(1); root in sys.path or sys.path.insert(0, root); "
    "from duly.executors.child import main; main()"
)


class Process:
    """A started interpreter in a session of its own, so that it and what it starts can be killed together."""

    def __init__(self, hello: bytes) -> None:
        self._wire, theirs = socket.socketpair()
        self._control, control = socket.socketpair()
        try:
            self._popen = _start(theirs.fileno(), control.fileno())
        except BaseException:
            self._close_channels()
            raise
        finally:
            theirs.close()
            control.close()
        self._wire.settimeout(0)
        self._control.settimeout(0)
        self._reader = FrameReader()
        self._outgoing = bytearray(hello)
        self.pid = self._popen.pid
        self.exit_descriptor = _exit_descriptor(self.pid)
        self.flush()

    @property
    def wire(self) -> socket.socket:
        """What to select on for frames."""
        return self._wire

    @property
    def has_unsent(self) -> bool:
        """Whether bytes wait for room in the wire."""
        return bool(self._outgoing)

    def send(self, message: bytes) -> None:
        """Send what fits now and keep the rest: the supervising thread must never wait for one child."""
        self._outgoing += message
        self.flush()

    def flush(self) -> None:
        """Send more of what waits."""
        with suppress(BlockingIOError):
            while self._outgoing:
                del self._outgoing[: self._send_some()]

    def _send_some(self) -> int:
        try:
            return self._wire.send(self._outgoing)
        except (BrokenPipeError, ConnectionResetError):
            return len(self._outgoing)  # it is dead or dying, and its exit tells the rest

    def receive(self) -> list[tuple[Kind, bytes]] | None:
        """The frames that are complete now, None if nothing came; EOFError when the child closed its side."""
        try:
            chunk = self._wire.recv(CHUNK)
        except BlockingIOError:
            return None
        except ConnectionResetError:
            chunk = b""
        if not chunk:
            raise EOFError
        return self._reader.feed(chunk)

    def tell(self, kind: Kind, number: int) -> None:
        """A control word for the errand of that number."""
        with suppress(OSError):  # dying: its exit tells the rest
            self._control.send(frame(kind, NUMBER.pack(number)))

    def dismiss(self) -> None:
        """No more errands will come: leave."""
        with suppress(OSError):
            self._wire.shutdown(socket.SHUT_WR)

    def kill(self) -> None:
        """SIGKILL to its whole group; never once it was reaped, when the number may be somebody else's."""
        if self._popen.returncode is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)

    def reap(self) -> int | None:
        """The return code of a dead process (negative: a signal), after ending what it left behind."""
        if self._is_dead():
            self.kill()
        return self._popen.poll()

    def _is_dead(self) -> bool:
        """Look without reaping: until then its number, and so its group, is nobody else's."""
        with suppress(ChildProcessError, AttributeError):  # macOS has no waitid before Python 3.13
            return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        return False

    def wait(self, patience: timedelta) -> None:
        """Wait for the end of a process that was killed."""
        with suppress(subprocess.TimeoutExpired):
            self._popen.wait(patience.total_seconds())

    def close(self) -> None:
        """Give the descriptors back."""
        self._close_channels()
        if self.exit_descriptor is not None:
            os.close(self.exit_descriptor)

    def _close_channels(self) -> None:
        self._wire.close()
        self._control.close()


def _start(wire: int, control: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, *_interpreter_options(), "-c", BOOT, PACKAGE_ROOT, str(wire), str(control)],
        stdin=subprocess.DEVNULL,
        pass_fds=(wire, control),
        start_new_session=True,
    )


def _interpreter_options() -> list[str]:
    """What the parent was started with, plus -P: only the search path says where modules come from."""
    isolate = ["-E"] if sys.flags.ignore_environment else []
    optimise = ["-" + "O" * sys.flags.optimize] if sys.flags.optimize else []
    warn = [f"-W{option}" for option in sys.warnoptions]
    extra = [f"-X{name}" if value is True else f"-X{name}={value}" for name, value in _x_options().items()]
    return ["-P", *isolate, *optimise, *warn, *extra]


def _x_options() -> dict[str, str | bool]:
    return sys._xoptions  # pyright: ignore[reportPrivateUsage] - the documented name, for CPython


def _exit_descriptor(pid: int) -> int | None:
    """Becomes readable when the process ends. Elsewhere than on Linux the end of the wire has to do."""
    if sys.platform == "linux" and hasattr(os, "pidfd_open"):
        with suppress(OSError):  # a kernel before 5.3, or no descriptors left
            return os.pidfd_open(pid)
    return None
