"""The command `agentgym`, and Python code, in forks of one process, which has imported once what they need.

Torch and TRL take ten seconds of a processor to import, a document may train three times, and nothing of that is what
its test is about. A fork has the arguments, folder, environment variables and streams that the command was given, and
its exit code is that of the command. Tests about starting a command, or about what it imports, run the real one.
The command `python-code CODE` stands for `python -W error -c CODE`.
"""

from __future__ import annotations

import array
import atexit
import gc
import importlib
import json
import os
import re
import socket
import subprocess
import sys
import threading
import traceback
import types
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn

LIGHT = ("agentgym.cli.app", "agentgym.rollout", "agentgym.evaluation", "agentgym.storage", "agentgym.credit")
HEAVY = ("agentgym.training.run", "agentgym.training.stages.warm_start", "trl.trainer.sft_trainer")
NEED_HEAVY = re.compile(
    r"agentgym (train|credit audit)|python-code .*\bagentgym\.(training|methods|policy)\b", re.DOTALL
)

CLIENT = """#!{python} -IS
import array, json, os, socket, sys
server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
server.connect({address!r})
request = json.dumps([[os.path.basename(sys.argv[0]), *sys.argv[1:]], os.getcwd(), dict(os.environ)]).encode() + b"\\n"
streams = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1, 2]))]
server.sendmsg([request[:1]], streams)
server.sendall(request[1:])
sys.exit(int(server.makefile().readline() or 70))  # without an answer the server is gone: EX_SOFTWARE
"""


@contextmanager
def forked_commands(folder: Path) -> Iterator[Path]:
    """Yield a folder for PATH whose `agentgym` and `python-code` run in forks; `folder` is empty.

    The server ends with the block.
    """
    address = str(folder / "server")
    programs = folder / "bin"
    programs.mkdir()
    for name in ("agentgym", "python-code"):
        (programs / name).write_text(CLIENT.format(python=sys.executable, address=address))
        (programs / name).chmod(0o755)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(address)
        listener.listen(8)
        start = [sys.executable, __file__, str(listener.fileno())]
        server = subprocess.Popen(start, pass_fds=[listener.fileno()], stdin=subprocess.DEVNULL)
    try:
        yield programs
    finally:
        server.terminate()
        server.wait()


def serve(listener: socket.socket) -> None:
    """Answer each request with a fork, one after the other; the commands themselves run beside each other."""
    import_all(LIGHT)
    while True:
        connection, _ = listener.accept()
        arguments, folder, variables, streams = receive(connection)
        if NEED_HEAVY.match(" ".join(arguments)):
            import_all(HEAVY)
        if os.fork() == 0:
            listener.close()
            report(connection, arguments, folder, variables, streams)
        for descriptor in (*streams, connection.detach()):
            os.close(descriptor)
        reap()


def import_all(names: tuple[str, ...]) -> None:
    """Import the modules, and leave them out of what the forks' garbage collection would copy."""
    for name in names:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()


def receive(connection: socket.socket) -> tuple[list[str], str, dict[str, str], list[int]]:
    """Arguments, folder, environment variables and standard streams of a request."""
    first, rights, *_ = connection.recvmsg(1, socket.CMSG_SPACE(3 * array.array("i").itemsize))
    streams = array.array("i", rights[0][2]).tolist()
    with connection.makefile("rb") as rest:
        arguments, folder, variables = json.loads(first + rest.readline())
    return arguments, folder, variables, streams


def reap() -> None:
    """Forget forks that have ended."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def report(
    connection: socket.socket, arguments: list[str], folder: str, variables: dict[str, str], streams: list[int]
) -> NoReturn:
    """In a fork: run the command in a fork of its own, and answer with its exit code, as a shell counts it."""
    command = os.fork()
    if command == 0:
        connection.close()
        run(arguments, folder, variables, streams)
    exit_code = os.waitstatus_to_exitcode(os.waitpid(command, 0)[1])
    connection.sendall(b"%d\n" % (exit_code if exit_code >= 0 else 128 - exit_code))
    os._exit(0)


def run(arguments: list[str], folder: str, variables: dict[str, str], streams: list[int]) -> NoReturn:
    """In the inner fork: become the command."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(variables)
    sys.path[:0] = [path for path in variables.get("PYTHONPATH", "").split(os.pathsep) if path]
    exit_code = exit_code_of(*arguments)
    # What an interpreter does at its end, without tearing down every module.
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(exit_code)


def exit_code_of(program: str, *arguments: str) -> int:
    try:
        if program == "python-code":
            run_code(*arguments)
        else:
            run_main(arguments)
    except SystemExit as exit_:
        if exit_.code is None or isinstance(exit_.code, int):
            return exit_.code or 0
        print(exit_.code, file=sys.stderr)
        return 1
    except BaseException:  # noqa: BLE001  the interpreter prints it too: this is the end of the program
        traceback.print_exc()
        return 1
    return 0


def run_code(code: str) -> None:
    warnings.simplefilter("error")
    sys.argv = ["-c"]
    sys.path.insert(0, "")
    main = types.ModuleType("__main__")
    sys.modules["__main__"] = main
    exec(compile(code, "<string>", "exec"), vars(main))


def run_main(arguments: tuple[str, ...]) -> None:
    from agentgym.cli import main

    sys.argv = ["agentgym", *arguments]
    main()


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
