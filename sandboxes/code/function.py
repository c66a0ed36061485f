"""`agentgym/code-function-v1`: write a function in C, C++, Go, Java, JavaScript or Rust, as the task allows."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from agentgym import (
    Checkpoint,
    Environment,
    Message,
    ObservedState,
    SandboxUnavailable,
    Task,
    TaskError,
    ToolError,
    tool,
)
from agentgym.sandbox import Sandbox, Snapshot

from ..languages import (
    FUNCTION_SPEC,
    LANGUAGES,
    CalledFunction,
    CallFailed,
    Case,
    FunctionTask,
    ToolchainFault,
    build,
    language_snapshot,
    same_value,
)
from .transcript import cut, last_lines, stop_if_stopped

MAX_CODE, BUILD_S, RUN_S = 200_000, 60.0, 10.0
PRINTED = "/tmp/printed"
_SUBMIT = "Write the function, try it, then submit all of the file."
_CHANCE_NAME = re.compile(r"/tmp/(?:cc|rustc|go-build)\w+")


class CodeFunction(Environment):
    """Function writing in a sandbox without network. Runs are isolated from each other: each has its own sandbox.

    Task parameters: `function`, the signature, such as {"name": "total", "arguments": [["xs", "list[int]"]],
    "returns": "int"}; `languages`, those that may be used, the default first; `examples`, a list of
    {"arguments", "value"} that the agent may try; `declared`, true if the prompt declares the function, so that no
    declaration is added. The hidden calls are in the task's truth, which an environment never gets: the reward
    `hidden_calls` makes them in another sandbox.
    """

    sandbox = FUNCTION_SPEC
    reward = "hidden_calls"
    task_set = "code/polyglot-v1"
    _function: FunctionTask
    _examples: list[Case]
    _observed: ObservedState

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        """Begin a task.

        Raises: TaskError for an invalid function or invalid examples, or for a toolchain that does not work.
        """
        await self._open(task, None)
        signature = self._function.signature
        stubs = [f"{name}:\n{LANGUAGES[name].stub(signature)}" for name in self._function.languages]
        if task.parameters.get("declared"):
            words, stubs = f"{_SUBMIT} Keep the declaration that the task gives, without a main program.", []
        else:
            words = f"{_SUBMIT} Keep this declaration, without a main program"
            words += ":" if len(stubs) == 1 else ", in one of these languages:"
        return [Message("system", "\n\n".join([words, *stubs]).rstrip()), *task.opening()]

    @tool(timeout_s=BUILD_S + 2 * RUN_S, parallel=False)
    async def run(self, code: str, arguments: str, language: str = "") -> str:
        """Call the function and show what it returns and prints.

        Args:
            code: the whole file.
            arguments: a JSON list of its arguments; a map with numbers as keys is a list of [key, value].
            language: the language it is written in.
        """
        try:
            values: Any = json.loads(arguments)
            self._function.signature.check_arguments(values)
        except (ValueError, RecursionError) as error:
            raise ToolError(f"The arguments are no JSON list for this function: {error}") from error
        async with self._built(code, language) as (sandbox, function):
            try:
                text = f"Returned {json.dumps(await function.call(values), ensure_ascii=False)}"
            except CallFailed as error:
                text = f"Failed: {error}"
            return self._observed.add(f"{cut(text)}\n{await _printed(sandbox)}".rstrip())

    @tool(timeout_s=BUILD_S + 2 * RUN_S, parallel=False)
    async def test(self, code: str, language: str = "") -> str:
        """Try the function on the examples.

        Args:
            code: the whole file.
            language: the language it is written in.
        """
        if not self._examples:
            raise ToolError("This task has no examples. Use run with arguments of your own.")
        async with self._built(code, language) as (sandbox, function):
            failures = [text for case in self._examples if (text := await self._failure(function, case))]
            printed = await _printed(sandbox) if failures else ""
        count = len(self._examples)
        if not failures:
            return self._observed.add(f"All {count} examples pass.")
        lines = [f"{count - len(failures)} of {count} examples pass. These fail:", *failures, printed]
        return self._observed.add("\n".join(lines).rstrip())

    @tool(final=True, timeout_s=BUILD_S + 2 * RUN_S, parallel=False)
    async def submit(self, code: str, language: str = "") -> str:
        """Hand in the function.

        Args:
            code: the whole file.
            language: the language it is written in.
        """
        async with self._built(code, language):
            return "Submitted."

    async def state_key(self) -> str | None:
        """Return a hash of all that the agent knows: the task, and the set of the results seen so far."""
        return self._observed.key()

    async def checkpoint(self) -> Checkpoint | None:
        return Checkpoint(self._observed.data())

    async def restore(self, task: Task, checkpoint: Checkpoint, *, seed: int) -> None:
        await self._open(task, checkpoint)

    async def _open(self, task: Task, checkpoint: Checkpoint | None) -> None:
        try:
            self._function = FunctionTask.of(task.parameters)
            self._examples = self._function.cases(task.parameters.get("examples", []))
        except ValueError as error:
            raise TaskError(f"{task.id}: {error}.") from error
        known = repr((self._function, self._examples))
        self._observed = ObservedState(known, checkpoint.data["seen"] if checkpoint else ())
        for name in self._function.languages:
            await self._snapshot(name)

    async def _snapshot(self, language: str) -> Snapshot:
        if self.backend is None:
            raise SandboxUnavailable("CodeFunction has no backend. Create it by agentgym.make(...).")
        try:
            return await language_snapshot(self.backend, FUNCTION_SPEC, LANGUAGES[language])
        except ToolchainFault as error:
            raise TaskError(f"The sandbox's toolchain does not work: {error}") from error

    @asynccontextmanager
    async def _built(self, code: str, name: str) -> AsyncIterator[tuple[Sandbox, CalledFunction]]:
        """Compile the function in a new sandbox, ready to be called. Raises: ToolError with the compiler's errors."""
        if len(code) > MAX_CODE:
            raise ToolError(f"The code has {len(code)} characters; at most {MAX_CODE} are taken.")
        try:
            language = self._function.language(name)
        except ValueError as error:
            raise ToolError(f"{error}.") from None
        signature = self._function.signature
        sandbox = await self.open_sandbox(snapshot=await self._snapshot(name or self._function.languages[0]))
        try:
            result = await build(sandbox, language, signature, code, timeout_s=BUILD_S)
            stop_if_stopped(result, BUILD_S, "")
            if not result.ok:
                errors = _CHANCE_NAME.sub("/tmp/object", last_lines(result.stderr + result.stdout, 15))
                raise ToolError(f"The code does not compile:\n{errors}")
            yield sandbox, await CalledFunction.start(sandbox, language, signature, timeout_s=RUN_S, printed=PRINTED)
        finally:
            await sandbox.close()

    async def _failure(self, function: CalledFunction, case: Case) -> str:
        """Return what is wrong with the function's value for an example; an empty text if it is right."""
        signature = self._function.signature
        words = f"{signature.name}({', '.join(cut(json.dumps(value), 300) for value in case.arguments)})"
        expected = cut(json.dumps(case.value), 300)
        try:
            value = await function.call(case.arguments)
        except CallFailed as error:
            return f"{words} should be {expected}, but {error}."
        if same_value(signature.returns, case.value, value):
            return ""
        return f"{words} should be {expected}, but is {cut(json.dumps(value), 300)}."


async def _printed(sandbox: Sandbox) -> str:
    """Return what the program printed to standard output and standard error."""
    try:
        raw = await sandbox.read(PRINTED, max_bytes=65_536)
    except (OSError, ValueError):
        return ""
    return cut(raw.decode("utf-8", "replace").rstrip(), 1_000)
