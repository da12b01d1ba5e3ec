"""Entry functions that the children of these tests run; found through the pool's search path."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable

from duly.errors import LeaseLost, SoftLimitExceeded

Emit = Callable[[bytes], None]
FOREVER = 100.0


def echo(message: bytes, _emit: Emit) -> bytes:
    return message


def pid(_message: bytes, _emit: Emit) -> bytes:
    return str(os.getpid()).encode()


def fail(message: bytes, _emit: Emit) -> bytes:
    raise ValueError(message.decode())


def exit_politely(_message: bytes, _emit: Emit) -> bytes:
    sys.exit(3)


def return_text(_message: bytes, _emit: Emit) -> object:
    return "not bytes"


def sleep(_message: bytes, emit: Emit) -> bytes:
    emit(str(os.getpid()).encode())
    time.sleep(FOREVER)
    return b"slept"


def hog_interpreter(_message: bytes, emit: Emit) -> bytes:
    """C code that never lets another thread of this process run."""
    emit(str(os.getpid()).encode())
    re.match(r"(a+)+b", "a" * 64)
    return b"matched"


def elapsed_until(wait: Callable[[], object]) -> bytes:
    begin = time.monotonic()
    try:
        wait()
    except SoftLimitExceeded:
        return str(time.monotonic() - begin).encode()
    return b"nothing came"


def limited_sleep(_message: bytes, _emit: Emit) -> bytes:
    return elapsed_until(lambda: time.sleep(FOREVER))


def limited_socket(_message: bytes, _emit: Emit) -> bytes:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        return elapsed_until(lambda: ours.recv(1))


def limited_loop(_message: bytes, _emit: Emit) -> bytes:
    def swallow() -> None:
        end = time.monotonic() + FOREVER
        while time.monotonic() < end:
            try:
                sum(range(100))
            except Exception:
                continue

    return elapsed_until(swallow)


def work_for(message: bytes, _emit: Emit) -> bytes:
    """Busy for that many seconds; long enough to meet a limit, short enough to miss it."""
    end = time.monotonic() + float(message)
    while time.monotonic() < end:
        pass
    return b"worked"


def heed_stop(_message: bytes, emit: Emit) -> bytes:
    try:
        emit(b"running")
        time.sleep(FOREVER)
    except LeaseLost:
        return b"tidied up"
    return b"nothing came"


def ignore_stop(_message: bytes, emit: Emit) -> bytes:
    try:
        emit(str(os.getpid()).encode())
        time.sleep(FOREVER)
    except LeaseLost:
        emit(b"ignored")
        time.sleep(FOREVER)
    return b"nothing came"


def die(message: bytes, emit: Emit) -> bytes:
    emit(b"dying")
    if message == b"segfault":
        ctypes.string_at(0)
    if message == b"exit":
        os._exit(3)
    os.kill(os.getpid(), signal.SIGKILL)
    return b""


def grandchild(_message: bytes, emit: Emit) -> bytes:
    started = subprocess.Popen([sys.executable, "-c", f"import time; time.sleep({FOREVER})"])
    emit(f"{os.getpid()} {started.pid}".encode())
    started.wait()
    return b""


def forks_and_dies(_message: bytes, emit: Emit) -> bytes:
    """Leaves a copy of the process behind that holds every descriptor open."""
    copy = os.fork()
    if copy == 0:
        time.sleep(FOREVER)
    emit(str(copy).encode())
    os.kill(os.getpid(), signal.SIGKILL)
    return b""


def closes_everything(_message: bytes, _emit: Emit) -> bytes:
    os.closerange(3, 4096)
    time.sleep(FOREVER)
    return b""


def scribbles(_message: bytes, _emit: Emit) -> bytes:
    """Writes into every descriptor it was not given, as a broken daemon might."""
    for descriptor in range(3, 4096):  # whoever runs the tests may have many open
        try:
            os.write(descriptor, b"\xff" * 64)
        except OSError:
            continue
    time.sleep(FOREVER)
    return b""


def signalled_like_by_a_terminal(_message: bytes, _emit: Emit) -> bytes:
    os.kill(os.getpid(), signal.SIGINT)
    os.kill(os.getpid(), signal.SIGTERM)
    return b"still here"


def terminable_program(_message: bytes, _emit: Emit) -> bytes:
    program = subprocess.Popen([sys.executable, "-c", f"import time; time.sleep({FOREVER})"])
    program.terminate()
    return str(program.wait(60)).encode()


def prints(message: bytes, _emit: Emit) -> bytes:
    print("a line", flush=True)
    os.write(1, b"\x01\x00\x00\xff\xff raw bytes\n")
    return message


def reads_stdin(_message: bytes, _emit: Emit) -> bytes:
    return sys.stdin.read().encode()


def counts(message: bytes, emit: Emit) -> bytes:
    for number in range(int(message)):
        emit(str(number).encode())
    return b"counted"


def counts_in_threads(message: bytes, emit: Emit) -> bytes:
    def count() -> None:
        counts(message, emit)

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return b"counted"


def emits_large(message: bytes, emit: Emit) -> bytes:
    emit(message)
    return message * 2


def emits_until_stopped(_message: bytes, emit: Emit) -> bytes:
    try:
        while True:
            emit(b"x" * 50_000)
    except SoftLimitExceeded:
        emit(b"limit")
        return b"whole"


_leftover = threading.Event()


def leaves_a_thread(_message: bytes, emit: Emit) -> bytes:
    def speak_later() -> None:
        _leftover.wait(FOREVER)
        emit(b"too late")
        _leftover.clear()

    threading.Thread(target=speak_later, daemon=True).start()
    return b"left"


def lets_it_speak(_message: bytes, emit: Emit) -> bytes:
    _leftover.set()
    while _leftover.is_set():
        time.sleep(0.001)
    emit(b"mine")
    return b"done"
