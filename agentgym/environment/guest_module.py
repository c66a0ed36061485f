"""Run our own code inside a sandbox: send the source of a module, and call its functions with plain data.

A guest module is an ordinary file of a package. It may import the standard library, packages in the sandbox's image,
and guest modules sent before it (`from .other import name`). To reject a request with a text for the agent, it raises
an exception whose class has `for_agent = True`.
"""

from __future__ import annotations

import asyncio
import json
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from agentgym.errors import SandboxDied, ToolError
from agentgym.sandbox import ExecResult, Sandbox

MAX_REPLY_BYTES = 2_000_000

_PRELUDE = """
import sys as _sys
_path, _sys.path[:] = _sys.path[:], [_folder for _folder in _sys.path if _folder.startswith("/") and _folder != "/work"]
import json as _json, operator as _operator, types as _types
_sys.modules["guests"] = _types.ModuleType("guests")
def _load(name, source):
    module = _sys.modules["guests." + name] = _types.ModuleType("guests." + name)
    module.__package__, module.__builtins__ = "guests", __builtins__
    exec(compile(source, name + ".py", "exec"), module.__dict__)
    return module
def _serve(owner, name, arguments, limit):
    try:
        reply = _json.dumps({"ok": _operator.attrgetter(name)(owner)(*_json.loads(arguments))})
        if len(reply) > limit:
            reply = _json.dumps({"refused": "The result is too big. Ask for less."})
    except Exception as error:
        if not getattr(error, "for_agent", False):
            raise
        reply = _json.dumps({"refused": str(error)})
    print("\\n" + reply)
"""


_READY = "_sys.path[:] = _path"  # imports before this line find our modules, whatever files are in /work


class GuestStopped(ToolError):
    """The guest ran out of time or memory, or was ended by a signal; its session, if any, is lost."""


class GuestModule:
    """Files of a package that run inside a sandbox.

    Args:
        package: dotted name of the package with the files (`__package__` for the caller's own), or their folder.
        names: the file names without `.py`, each after the files it imports. The functions to call are in the last.
    """

    def __init__(self, package: str | Path, *names: str) -> None:
        self.package, self.names = package, names

    def program(self, function: str, *arguments: Any) -> str:
        """Return Python code that loads the files and calls a function with plain data, for `Sandbox.run_python`."""
        return f"{_source(self.package, self.names)}\n_guest.{function}(*_json.loads({_plain(arguments)}))\n"

    async def run(
        self, sandbox: Sandbox, function: str, *arguments: Any, timeout_s: float = 30.0, max_output_bytes: int = 65_536
    ) -> ExecResult:
        """Call a function that prints, or that ends its own process. Returns: how the process ended."""
        program = self.program(function, *arguments)
        return await sandbox.run_python(program, timeout_s=timeout_s, max_output_bytes=max_output_bytes)

    async def call(self, sandbox: Sandbox, function: str, *arguments: Any, timeout_s: float = 30.0) -> Any:
        """Call a function in its own process. Returns: the function's result, after conversion to JSON and back.

        Raises: ToolError with the text of a rejection; GuestStopped; SandboxDied if the guest ends without a reply.
        """
        program = f"{_source(self.package, self.names)}\n{_request('_guest', function, arguments)}"
        result = await sandbox.run_python(program, timeout_s=timeout_s, max_output_bytes=2 * MAX_REPLY_BYTES)
        return _reply(result, self.names[-1])

    def object(self, sandbox: Sandbox, maker: str, *arguments: Any, timeout_s: float = 10.0) -> GuestObject:
        """Return a persistent object inside the sandbox, made by a function or class of the module at first request.

        Args:
            maker: name of the function or class, such as `Database.open`.
            timeout_s: wall-time limit of a request; the guest's own limits should be shorter.
        """
        return GuestObject(self, sandbox, maker, arguments, timeout_s)


class GuestObject:
    """An object inside a sandbox, in its own session. Requests are served one after another.

    If the object is lost (time, memory, a cancelled request), the next request makes it again.

    Attributes:
        losses: how often the object was lost by time, memory or a signal.
    """

    def __init__(
        self, module: GuestModule, sandbox: Sandbox, maker: str, arguments: tuple[Any, ...], timeout_s: float
    ) -> None:
        self._module, self._sandbox, self._timeout_s = module, sandbox, timeout_s
        self._making = f"_object = _guest.{maker}(*_json.loads({_plain(arguments)}))"
        self._sessions = 0
        self._is_open = False
        self._one_at_a_time = asyncio.Lock()
        self.losses = 0

    async def call(self, method: str, *arguments: Any) -> Any:
        """Call a method. Returns: the method's result, after conversion to JSON and back.

        Raises: ToolError with the text of a rejection; GuestStopped; SandboxDied if the guest ends without a reply.
        """
        async with self._one_at_a_time:
            request = _request("_object", method, arguments)
            if not self._is_open:
                self._sessions += 1
                request = f"{_source(self._module.package, self._module.names)}\n{self._making}\n{request}"
            self._is_open = False  # stays closed if this is cancelled, because the session may be lost
            result = await self._sandbox.run_python(
                request,
                session=f"{self._module.names[-1]} {id(self):x} {self._sessions}",
                timeout_s=self._timeout_s,
                max_output_bytes=2 * MAX_REPLY_BYTES,
            )
            try:
                reply = _reply(result, self._module.names[-1])
            except GuestStopped:
                self.losses += 1
                raise
            except ToolError:
                self._is_open = True
                raise
            self._is_open = True
            return reply


@cache
def _source(package: str | Path, names: tuple[str, ...]) -> str:
    """Return the code that loads the files; the last one becomes `_guest`."""
    folder = package if isinstance(package, Path) else files(package)
    sources = [(name, folder.joinpath(f"{name}.py").read_text(encoding="utf-8")) for name in names]
    return _PRELUDE + "".join(f"_guest = _load({name!a}, {source!a})\n" for name, source in sources) + _READY


def _request(owner: str, name: str, arguments: tuple[Any, ...]) -> str:
    return f"_serve({owner}, {name!a}, {_plain(arguments)}, {MAX_REPLY_BYTES})"


def _plain(arguments: tuple[Any, ...]) -> str:
    """Return the arguments' JSON as a Python string literal. Raises: TypeError if they are not plain data."""
    return ascii(json.dumps(arguments))


def _reply(result: ExecResult, name: str) -> Any:
    if result.timed_out or result.oom_killed or result.exit_code < 0:
        raise GuestStopped("This took too much time or memory, and was stopped. Ask for less.")
    try:
        reply = json.loads(result.stdout.rstrip().rpartition(b"\n")[2])
        if "refused" in reply:
            raise ToolError(reply["refused"])
        return reply["ok"]
    except (ValueError, TypeError, KeyError) as error:
        error_text = result.stderr.decode("utf-8", "replace")[-500:]
        raise SandboxDied(
            f"The guest module {name!r} ended with exit code {result.exit_code} and without a reply: {error_text}"
        ) from error
