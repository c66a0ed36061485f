"""`agentgym/function-turns-v1`: a user asks for one thing after another, and functions keep state between calls."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from typing_extensions import override

from agentgym import Environment, Message, SandboxDied, SandboxSpec, Task, TaskError, Tool, ToolError
from agentgym.sandbox import Channel

RECORD = "Record: "
"""Begins the record in an episode's last reply. No agent reads the record; the reward `bfcl_turns` does."""
MORE_FUNCTIONS = "I have updated some more functions you can choose from. What about now?"
Contents = tuple[tuple[str, bytes], ...]
"""Files by their paths."""
Program = Callable[[Mapping[str, Any]], tuple[Contents, dict[str, Any]]]
CALL_S, START_S, MAX_CHARS = 10.0, 60.0, 100_000
FOLDER = "source"
EXAMPLE: Mapping[str, Any] = {
    "source": str(files(__package__) / "example_functions.py"),
    "classes": {"Lamps": "example_functions"},
    "tools": [
        {"name": "list_lamps", "description": "List the lamps.", "parameters": {"type": "object", "properties": {}}},
        {
            "name": "switch",
            "description": "Switch a lamp on or off.",
            "parameters": {
                "type": "object",
                "properties": {"lamp": {"type": "string"}, "on": {"type": "boolean"}},
                "required": ["lamp", "on"],
            },
        },
    ],
}


class FunctionTurns(Environment):
    """Functions with state, and a user who asks for the next thing when the agent has answered. Isolated: the
    functions.

    The functions' source runs in a sandbox of the episode, and gets the agent's arguments unchanged. A turn ends with a
    message without calls. The episode ends with the last turn, or when a call takes too long.

    Task parameters: `source`, a Python file or a folder of them, and `package`, the dotted name that they are imported
    from ("" by default); `classes`, maps the name of each class, whose public methods are the functions, to its module;
    `config` and `long_context`, arguments of each class's `_load_scenario`; `tools`, the functions that
    the agent may call, each with name, description and parameters; `turns`, the messages of the user after the first;
    `added`, further tools by the number of the turn that adds them. Without `source` the functions switch a few lamps.
    """

    reward = "bfcl_turns"
    sandbox = SandboxSpec(memory_mib=512, processes=16, disk_mib=64)

    def __init__(self) -> None:
        super().__init__()
        self._channel: Channel | None = None
        self._later: list[str] = []
        self._added: Mapping[str, Any] = {}
        self._records: list[dict[str, Any]] = []
        self._results: list[str] = []

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        """Begin a task. Raises: TaskError for parameters that describe no functions."""
        self.ended, self._records, self._results = False, [], []
        parameters = {**EXAMPLE, **task.parameters} if "source" not in task.parameters else task.parameters
        try:
            contents, opening = self.program(parameters)
            self._later, self._added = [str(text) for text in parameters.get("turns", ())], parameters.get("added", {})
            tools = parameters["tools"]
            self.tools = {}
            self._offer(tools)
        except (KeyError, TypeError, ValueError, OSError) as error:
            reason = f"{type(error).__name__}: {error}"
            raise TaskError(f"{task.id}: its parameters do not describe functions: {reason:.300}") from error
        sandbox = await self.default_sandbox(empty=True)
        for path, data in contents:
            await sandbox.write(f"{FOLDER}/{path}", data)
        self._channel = await sandbox.open_channel(["python3", "-I", "-S", "-c", _guest()])
        reply = await self._channel.request({"open": {"folder": FOLDER, **opening}}, timeout_s=START_S)
        if "error" in reply:
            raise TaskError(f"{task.id}: its functions cannot be loaded: {reply['error']!s:.300}")
        return task.opening()

    @classmethod
    @override
    def least_turns(cls, task: Task) -> int:
        turns = task.parameters.get("turns", ())
        return 2 * (len(turns) + 1) if isinstance(turns, list | tuple) else 1  # calls, and a message to end the turn

    async def respond(self, message: Message) -> list[Message]:
        """End the turn. The user asks for the next thing, or the episode ends."""
        if self.ended:
            return []
        try:
            state = (await self._ask({"state": True}, timeout_s=START_S))["state"]
        except ToolError:  # the functions are gone, so the episode ends
            return []
        self._records.append({"state": state, "results": self._results})
        self._results = []
        turn = len(self._records)
        if turn > len(self._later):
            self.end_episode()
            return [Message("user", RECORD + json.dumps({"turns": self._records}))]
        if added := self._added.get(str(turn)):
            self._offer(added)
        return [Message("user", self._later[turn - 1] or MORE_FUNCTIONS)]

    async def close(self) -> None:
        channel, self._channel = self._channel, None
        if channel is not None:
            await channel.close()
        await super().close()

    @classmethod
    def program(cls, parameters: Mapping[str, Any]) -> tuple[Contents, dict[str, Any]]:
        """Return the files that the functions need, and the request that opens them.

        Raises: KeyError, TypeError, ValueError, OSError for parameters that describe no functions.
        """
        opening = {
            "classes": dict(parameters["classes"]),
            "config": dict(parameters.get("config", {})),
            "long_context": bool(parameters.get("long_context", False)),
        }
        return _contents(Path(parameters["source"]), str(parameters.get("package", ""))), opening

    @classmethod
    @contextmanager
    def local_functions(cls) -> Iterator[LocalFunctions]:
        """Yield functions in a process of this host, for importers to find out what published calls do."""
        command = [sys.executable, "-I", "-S", "-B", "-c", _guest()]
        with (
            tempfile.TemporaryDirectory() as folder,
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process,
        ):
            yield LocalFunctions(cls.program, process, Path(folder))

    def _offer(self, tools: Sequence[Mapping[str, Any]]) -> None:
        self.add_tools(*map(self._declared, tools))

    def _declared(self, schema: Mapping[str, Any]) -> Tool:
        return Tool.from_schema(
            schema["name"],
            schema["description"],
            schema["parameters"],
            self._function(schema["name"]),
            parallel=False,
            timeout_s=4 * CALL_S,
            max_output_chars=MAX_CHARS,
        )

    def _function(self, name: str) -> Any:
        async def call(arguments: dict[str, Any]) -> str:
            if self.ended:
                raise ToolError("It is over: nothing changes any more.")
            result = str((await self._ask({"call": name, "arguments": arguments}))["result"])
            self._results.append(_digest_of(result))
            return result

        return call

    async def _ask(self, request: dict[str, Any], *, timeout_s: float | None = None) -> Any:
        """Ask the functions' process. Raises: ToolError if the agent's arguments ended it, which ends the episode;
        SandboxDied.
        """
        assert self._channel is not None
        timeout_s = CALL_S if timeout_s is None else timeout_s
        try:
            return await self._channel.request(request, timeout_s=timeout_s)
        except (SandboxDied, TimeoutError):
            await (await self.default_sandbox()).exec(["true"])  # raises SandboxDied if the whole sandbox has died
            self.end_episode()
            raise ToolError(f"The function did not answer within {timeout_s:g} s. It is over.") from None


class LocalFunctions:
    """Runs the functions of tasks in a process of this host, one task at a time."""

    def __init__(self, program: Program, process: subprocess.Popen[str], folder: Path) -> None:
        self._program, self._process, self._folder = program, process, folder
        self._written: list[Contents] = []

    def play(self, parameters: Mapping[str, Any], turns: Sequence[Sequence[Sequence[Any]]]) -> list[dict[str, Any]]:
        """Return the effects of calls. Raises: ValueError if the functions cannot be loaded.

        Args:
            turns: the calls of each turn, as name, positional arguments, arguments by name.
        Returns: for each turn `state` and `results`, as in an episode's record, and `texts`, the results themselves.
        """
        contents, opening = self._program(parameters)
        if contents not in self._written:
            for path, data in contents:
                (self._folder / path).parent.mkdir(parents=True, exist_ok=True)
                (self._folder / path).write_bytes(data)
            self._written.append(contents)
        if "error" in (reply := self._ask({"open": {"folder": str(self._folder), **opening}})):
            raise ValueError(f"the functions cannot be loaded: {reply['error']}")
        outcomes = []
        for calls in turns:
            texts = [
                str(self._ask({"call": name, "positional": positional, "arguments": arguments})["result"])
                for name, positional, arguments in calls
            ]
            digests = [_digest_of(text) for text in texts]
            outcomes.append({"state": self._ask({"state": True})["state"], "results": digests, "texts": texts})
        return outcomes

    def _ask(self, request: Mapping[str, Any]) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


def _digest_of(result: str) -> str:
    """Return the digest of a result, which the record has in place of the result."""
    return hashlib.sha256(result.encode("utf-8", "surrogatepass")).hexdigest()[:16]


@lru_cache(maxsize=8)
def _contents(source: Path, package: str) -> Contents:
    """Return the Python files of a folder, or one file. Raises: ValueError if there are none; OSError."""
    paths = sorted(source.glob("*.py")) if source.is_dir() else [source]
    if not paths:
        raise ValueError(f"{source} contains no Python file")
    return tuple(("/".join([*package.split("."), path.name]).lstrip("/"), path.read_bytes()) for path in paths)


@cache
def _guest() -> str:
    return (files(__package__) / "guest_functions.py").read_text(encoding="utf-8")
