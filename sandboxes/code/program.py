"""`agentgym/code-program-v1`: write a whole program, in any language the image has, that reads input and prints."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from agentgym import Checkpoint, Environment, Message, SandboxSpec, Task, TaskError, ToolError, tool
from agentgym.sandbox import ExecResult, toolchain_fault

from .transcript import cut, last_lines, stop_if_stopped, transcript
from .workbench import RUN_S, Workbench

MAX_CODE, BUILD_S = 200_000, 60.0


@dataclass(frozen=True, slots=True)
class Program:
    """How to build and run a language's programs: a file name, a build command (if any), and a run command.

    `harmless` is a program that does nothing, for a language whose toolchain cannot be checked without one.
    """

    file: str
    build: Sequence[str]
    run: Sequence[str]
    harmless: str | None = None

    @classmethod
    def of(cls, task: Task) -> Program:
        """Return the task's `parameters["program"]`. Raises: TaskError if it is invalid."""
        given: Any = task.parameters.get("program")
        if not isinstance(given, Mapping) or not given.get("run") or not isinstance(given.get("file"), str):
            raise TaskError(
                f"{task.id}: parameters['program'] is {given!r:.200}. Give file, run and, for a compiled language, "
                "build, such as {'file': 'main.c', 'build': ['gcc', 'main.c', '-o', 'main'], 'run': ['./main']}."
            )
        build, run = (list(map(str, given.get(name, ()))) for name in ("build", "run"))
        return cls(given["file"], build, run, given.get("harmless"))

    @property
    def needs(self) -> list[str]:
        """Return the programs that the image must have."""
        return [argv[0] for argv in (self.build, self.run) if argv and "/" not in argv[0]]


class ProgramEnvironment(Environment):
    """A sandbox in which one program is written, built and tried on the examples of a task.

    Subclasses define what is written, and have the tools: `run` or a similar one, `test` and `submit`.
    """

    sandbox = SandboxSpec(memory_mib=512, processes=64, disk_mib=64)
    reward = "program_output"
    system: ClassVar[str]
    _program: Program
    _examples: list[dict[str, Any]]
    _bench: Workbench
    _compiles: bool  # whether the last submitted program compiled

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        """Begin a task. Raises: TaskError for an invalid program or invalid examples."""
        self._open(task, None)
        return [Message("system", self.system), *task.opening()]

    async def state_key(self) -> str | None:
        """Hash of all files, including those of the last run, and of the examples."""
        text = f"{await self._bench.state_key()} {self._examples!r}"
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    async def checkpoint(self) -> Checkpoint | None:
        return await self._bench.checkpoint()

    async def restore(self, task: Task, checkpoint: Checkpoint, *, seed: int) -> None:
        self._open(task, checkpoint)

    def _open(self, task: Task, checkpoint: Checkpoint | None) -> None:
        self._program, self._compiles = Program.of(task), False
        examples: Any = task.parameters.get("examples", [])
        if not isinstance(examples, list | tuple) or not all(map(_is_example, examples)):
            raise TaskError(
                f"{task.id}: parameters['examples'] must be a list of objects with the texts `stdin` and `stdout`, not "
                f"{examples!r:.200}."
            )
        self._examples = [dict(example) for example in examples]
        self._bench = Workbench(self, {}, programs=self._program.needs, checkpoint=checkpoint)

    async def _run_program(self, code: str, stdin: str) -> str:
        """Return what a program prints for an input. Raises: ToolError if it does not compile or is stopped."""
        await self._build(code)
        return transcript(await self._run_built(stdin), RUN_S)

    async def _test_program(self, code: str) -> str:
        """Return how many examples pass, and what is wrong with the others. Raises: ToolError, as `_run_program`."""
        if not self._examples:
            raise ToolError("This task has no examples. Try the program with input of your own.")
        await self._build(code)
        failures = [text for example in self._examples if (text := await self._try_example(example))]
        count = len(self._examples)
        if failures:
            return f"{count - len(failures)} of {count} examples pass. These fail:\n" + "\n\n".join(failures)
        return f"All {count} examples pass."

    async def _submit_program(self, code: str) -> str:
        """Submit a program. Raises: ToolError if it does not compile."""
        _check_length(code)
        if self._program.build:
            await self._build(code)
        return "Submitted."

    async def _try_example(self, example: Mapping[str, str]) -> str:
        """Return what is wrong with the built program's output for an example; an empty text if it is right."""
        result = await self._run_built(example["stdin"])
        stop_if_stopped(result, RUN_S, f"input:\n{cut(example['stdin'], 300)}")
        if result.ok and result.text.split() == example["stdout"].split():
            return ""
        got = transcript(result, RUN_S, max_chars=300)
        return f"input:\n{cut(example['stdin'], 300)}\nexpected:\n{example['stdout']}\ngot:\n{got}"

    async def _run_built(self, stdin: str) -> ExecResult:
        """Run the built program on an input."""
        return await self._bench.command(self._program.run, stdin=stdin)

    async def _build(self, code: str) -> None:
        """Write the program and compile it. Raises: ToolError with the compiler's errors."""
        _check_length(code)
        await self._bench.write(self._program.file, code)
        if not self._program.build:
            return
        built = await self._bench.command(self._program.build, timeout_s=BUILD_S)
        stop_if_stopped(built, BUILD_S, "")
        if not built.ok:
            await self._check_compiler()
            errors = re.sub(r"/tmp/cc\w+", "/tmp/object", last_lines(built.stderr + built.stdout, 12))  # random names
            raise ToolError(f"The program does not compile:\n{errors}")

    async def _check_compiler(self) -> None:
        """Check the compiler on a harmless program, in a sandbox that the agent never used. Raises: TaskError if it
        fails.
        """
        if self._compiles:
            return
        sandbox = await self.open_sandbox()
        fault = await toolchain_fault(sandbox, self._program.file, self._program.build, harmless=self._program.harmless)
        await sandbox.close()
        if fault:
            raise TaskError(f"The sandbox's toolchain does not work: {fault}. Repair the image, or leave the task out.")
        self._compiles = True


def _is_example(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(value.get(name), str) for name in ("stdin", "stdout"))


def _check_length(code: str) -> None:
    if len(code) > MAX_CODE:
        raise ToolError(f"The program has {len(code)} characters; at most {MAX_CODE} are taken.")


class CodeProgram(ProgramEnvironment):
    """Program writing in a sandbox without network. Not isolated: the agent's runs share its files under /work.

    Task parameters: `program` (file, build, run: any commands that the image has) and `examples`, a list of
    {"stdin", "stdout"} that the agent may try. The hidden inputs are in the task's truth, which an environment never
    gets: the reward `program_output` uses them in another sandbox.
    """

    task_set = "code/programs-v1"

    system = "Write the program, try it, then submit all of it."

    @tool(timeout_s=BUILD_S + 2 * RUN_S, parallel=False)
    async def run(self, code: str, stdin: str = "") -> str:
        """Run a program and show what it prints.

        Args:
            code: the whole program.
            stdin: its input.
        """
        return await self._run_program(code, stdin)

    @tool(timeout_s=BUILD_S + 5 * RUN_S, parallel=False)
    async def test(self, code: str) -> str:
        """Try a program on the examples."""
        return await self._test_program(code)

    @tool(final=True, timeout_s=BUILD_S + 2 * RUN_S, parallel=False)
    async def submit(self, code: str) -> str:
        """Hand in the program."""
        return await self._submit_program(code)
