"""The warm interpreter: running agent code in a fork of the guest, and in session processes that keep state."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import atexit
import builtins
import contextlib
import gc
import importlib
import io
import linecache
import os
import signal
import site
import socket
import struct
import sys
import traceback
import types
from typing import Any, NoReturn

from . import identity, kernel

FILE_NAME = "<code>"
WARM = ("collections", "contextlib", "copy", "functools", "heapq", "itertools", "json", "math", "operator", "re",
        "string", "time", "typing")  # fmt: skip

_INTERRUPT = int(signal.SIGINT)

SESSION_REQUEST = struct.Struct(">I")  # number of the call; then its code, unless that lies in a descriptor beside
SESSION_REPLY = struct.Struct(">Ii")  # number of the call, exit code


def prepare() -> None:
    """Make the spawner's interpreter look like a fresh `python` to the code that will run in its forks.

    Little is imported ahead: each shared library costs every fork and exit a hundredth of a millisecond, and `random`,
    which has four and seeds itself in every fork, 0.15.
    """
    site.setquit()
    for name in WARM:
        importlib.import_module(name)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # what was printed before a kill is not lost
    sys.argv = [""]
    sys.path.insert(0, "/work")
    sys.dont_write_bytecode = True


def enter_child(standard: tuple[int, int, int], most: int, keep: int | None = None) -> None:
    """In a fresh fork: let go of all that is the guest's, keep the three standard streams and perhaps one more as 3.

    `most`: how many descriptors the guest may have; none of its own is a higher number, and closing them through
    `kernel` would touch more.

    The process stays undumpable until nothing of the guest is reachable from it. This, and what runs after it, is
    written so as to touch little: each page of memory that a fork touches first costs it 1.5 microseconds.
    """
    os.setsid()
    for position, descriptor in enumerate(standard):
        os.dup2(descriptor, position)
    lowest = 3
    if keep is not None:
        os.dup2(keep, 3, inheritable=False)
        lowest = 4
    os.closerange(lowest, most)
    identity.become_agent()
    kernel.set_dumpable(True)
    step_behind_the_guest(os.getpid())


def step_behind_the_guest(pid: int) -> None:
    """When memory runs out, the kernel shall take this process first; when processors do, it shall wait."""
    try:
        os.setpriority(os.PRIO_PROCESS, pid, 10)
        descriptor = os.open(f"/proc/{pid}/oom_score_adj", os.O_WRONLY)
    except OSError:  # it may have ended already
        return
    try:
        os.write(descriptor, b"500")
    except OSError:
        pass
    finally:
        os.close(descriptor)


def run_once(code: bytes) -> NoReturn:
    """Run a whole program, with everything an interpreter does at its end."""
    _become_interpreter()
    exit_code = _execute(code, _fresh_main())
    try:
        if "threading" in sys.modules:
            sys.modules["threading"]._shutdown()  # waits for the program's threads, as at any exit
        getattr(atexit, "_run_exitfuncs")()  # noqa: B009
    except BaseException:  # noqa: BLE001, S110 - the agent's affair
        pass
    _flush()
    os._exit(exit_code & 0xFF)


def run_session(calls: socket.socket, most: int) -> NoReturn:
    """Run one piece of code after another in one namespace. The agent's code shares this process and may forge
    its own replies: all they can say is an exit code."""
    _become_interpreter()
    namespace = _fresh_main()
    while True:
        message, descriptors, _, _ = socket.recv_fds(calls, SESSION_REQUEST.size + most, 1)
        if not message:
            os._exit(0)
        (number,) = SESSION_REQUEST.unpack_from(message)
        code = message[SESSION_REQUEST.size :]
        if descriptors:
            os.lseek(descriptors[0], 0, os.SEEK_SET)
            with open(descriptors[0], "rb") as file:
                code = file.read()
        exit_code = _execute(code, namespace)
        _flush()
        calls.sendall(SESSION_REPLY.pack(number, max(min(exit_code, 255), -255)))


def _become_interpreter() -> None:
    _signal.signal(_INTERRUPT, _signal.default_int_handler)  # not its wrapper, which makes enumerations of numbers
    gc.enable()


def _fresh_main() -> dict[str, Any]:
    main = types.ModuleType("__main__")
    main.__dict__["__builtins__"] = builtins
    sys.modules["__main__"] = main
    return main.__dict__


def _execute(code: bytes, namespace: dict[str, Any]) -> int:
    """Run code and return its exit code; a traceback goes to standard error as from the real interpreter."""
    try:
        source = code.decode("utf-8", "surrogatepass")
        linecache.cache[FILE_NAME] = (len(source), None, source.splitlines(keepends=True), FILE_NAME)
        exec(compile(source, FILE_NAME, "exec", dont_inherit=True), namespace)
    except SystemExit as stop:
        if stop.code is None or isinstance(stop.code, int):
            return stop.code or 0
        with contextlib.suppress(BaseException):
            print(stop.code, file=sys.stderr)
        return 1
    except BaseException as error:  # noqa: BLE001 - the agent's error, whatever it is
        with contextlib.suppress(BaseException):
            outermost = error.__traceback__
            traceback.print_exception(type(error), error, outermost.tb_next if outermost else None)
        return 1
    return 0


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:  # noqa: SIM105 - which would be more to look at
            stream.flush()
        except BaseException:  # noqa: BLE001, S110 - the agent's affair
            pass
