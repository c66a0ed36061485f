"""The warm interpreter: runs agent code in forks of the guest, and in session processes that keep variables."""

from __future__ import annotations

import atexit
import builtins
import contextlib
import gc
import importlib
import io
import linecache
import os
import site
import socket
import struct
import sys
import traceback
from _signal import SIGINT, default_int_handler  # type: ignore[import-not-found]
from _signal import signal as set_handler  # not the wrapper in signal.py, which creates enumerations
from os import _exit, close, closerange, dup2, fork, read, setsid
from sys import modules
from types import ModuleType
from typing import Any, NoReturn

from . import surroundings
from .identity import become_agent
from .kernel import set_dumpable
from .path_tracer import join_tracer
from .priority import give_way

FILE_NAME = "<code>"
MAX_INLINE_CODE = 1 << 16  # bytes of code in one message; longer code comes in a descriptor
WARM = (
    "collections",
    "contextlib",
    "copy",
    "functools",
    "heapq",
    "itertools",
    "json",
    "math",
    "operator",
    "re",
    "string",
    "time",
    "typing",
)

_INTERRUPT = int(SIGINT)
_run_exit_functions = getattr(atexit, "_run_exitfuncs")  # noqa: B009

SESSION_REQUEST = struct.Struct(">I")  # number of the call; its code follows, unless it is in the session's file
SESSION_SOCKET, SESSION_FILE = 3, 4  # descriptors of a session's process
SESSION_REPLY = struct.Struct(">Ii")  # number of the call, exit code


def prepare() -> None:
    """Make the spawner's interpreter look like a fresh `python` to the code that runs in its forks.

    Few modules are imported: each shared library costs every fork and exit 0.01 ms, and `random`, which needs four and
    seeds itself in every fork, 0.15 ms.
    """
    site.setquit()
    for name in WARM:
        importlib.import_module(name)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # so that output before a kill is not lost
    sys.argv = [""]
    sys.path.insert(0, "/work")
    sys.dont_write_bytecode = True


def enter_child(standard: tuple[int, int, int], most: int, keep: tuple[int, ...] = ()) -> None:
    """Release, in a fresh fork, everything of the guest except the standard streams and the descriptors `keep`.

    Args:
        keep: the kept descriptors, which are renumbered from 3 on; none may be 3, which belongs to the guest.
        most: the guest's limit on descriptors. It has none with a higher number, and closing them by number touches
            less memory than a call through `kernel`.

    The process stays undumpable until it can no longer reach anything of the guest. This function and the code after it
    touch few objects: each page of memory that a fork touches first costs 1.5 microseconds, and calling
    a function by a name of this module, not of another, saves two pages.
    """
    setsid()
    first, second, third = standard
    dup2(first, 0)
    dup2(second, 1)
    dup2(third, 2)
    number = 3
    for descriptor in keep:
        dup2(descriptor, number, inheritable=False)
        number += 1
    joining = surroundings.joining
    for descriptor in joining:
        dup2(descriptor, number, inheritable=False)
        number += 1
    closerange(number, most)
    become_agent()
    set_dumpable(True)
    give_way(0)
    if joining:
        join_tracer(number - 2, number - 1)


def fork_to_run(code: bytes, standard: tuple[int, int, int], most: int) -> int:
    """Fork a child that runs a whole program. Args: as for `enter_child`. Returns: its pid."""
    pid = fork()
    if pid == 0:
        try:
            enter_child(standard, most)
            run_once(code)
        finally:
            _exit(127)
    return pid


def fork_to_wait(code_socket: int, standard: tuple[int, int, int], most: int) -> int:
    """Fork a child that waits for its program: a message whose first byte is followed by at most `MAX_INLINE_CODE`
    bytes.
    """
    pid = fork()
    if pid == 0:
        try:
            enter_child(standard, most, keep=(code_socket,))
            # touch the memory that any program will touch
            exec(compile("", FILE_NAME, "exec", dont_inherit=True), {})
            message = read(3, MAX_INLINE_CODE)
            close(3)
            if message:
                run_once(message[1:])
        finally:
            _exit(127)
    return pid


def run_once(code: bytes) -> NoReturn:
    """Run a whole program, then do everything that an interpreter does at exit."""
    _become_interpreter()
    exit_code = _execute(code, _fresh_main())
    try:
        if "threading" in modules:
            modules["threading"]._shutdown()  # waits for the program's threads, as any exit does
        _run_exit_functions()
    except BaseException:  # noqa: BLE001, S110 - agent code
        pass
    _flush()
    _exit(exit_code & 0xFF)


def run_session(most: int) -> NoReturn:
    """Run one piece of code after another in one namespace.

    Code that does not come with its request is in a file in memory, which guest and session share. Passing a
    file each time would fail when other sandboxes of the same user have many descriptors in transit.
    Agent code shares this process and may forge replies; a reply contains only an exit code.
    """
    _become_interpreter()
    namespace = _fresh_main()
    calls = socket.socket(fileno=SESSION_SOCKET)
    while True:
        message = calls.recv(SESSION_REQUEST.size + most)
        if not message:
            os._exit(0)
        (number,) = SESSION_REQUEST.unpack_from(message)
        code = message[SESSION_REQUEST.size :] or _read_from_start(SESSION_FILE)
        exit_code = _execute(code, namespace)
        _flush()
        calls.sendall(SESSION_REPLY.pack(number, max(min(exit_code, 255), -255)))


def _read_from_start(descriptor: int) -> bytes:
    code = b""
    while piece := os.pread(descriptor, 1 << 20, len(code)):
        code += piece
    return code


def _become_interpreter() -> None:
    set_handler(_INTERRUPT, default_int_handler)
    gc.enable()


def _fresh_main() -> dict[str, Any]:
    main = modules["__main__"] = ModuleType("__main__")
    namespace = main.__dict__
    namespace["__builtins__"] = builtins
    return namespace


def _execute(code: bytes, namespace: dict[str, Any]) -> int:
    """Run code and return its exit code. A traceback goes to standard error, as in the real interpreter."""
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
        try:  # noqa: SIM105 - it would touch more memory
            stream.flush()
        except BaseException:  # noqa: BLE001, S110 - agent code
            pass
