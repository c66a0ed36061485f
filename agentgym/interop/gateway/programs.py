"""A program that plays an episode: what it is, what it is told, and how its end ends the episode."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

from agentgym.environment.contract import Environment
from agentgym.errors import AgentGymError, PolicyError, SandboxExhausted
from agentgym.messages import Message, StopReason
from agentgym.sandbox import rootfs
from agentgym.text import counted

from .host_program import start_on_host
from .program_end import ProgramEnd
from .program_loop import ProgramLoop
from .sandbox_program import check_sandbox, start_in_sandbox

WHERE = ("host", "sandbox")


@dataclass(frozen=True, slots=True)
class AgentProgram:
    """A command that plays one episode per run.

    Environment variables give it the task and the gateway: OPENAI_BASE_URL, OPENAI_API_KEY, ANTHROPIC_BASE_URL,
    ANTHROPIC_API_KEY, GOOGLE_GEMINI_BASE_URL, GEMINI_API_KEY, AGENTGYM_TASK (the task's text), AGENTGYM_URL (the
    gateway) and AGENTGYM_MCP_URL (the tools).

    Attributes:
        command: the program and its arguments; `{task}` in an argument is replaced by the task's text, and, in a
            sandbox, `{home}` by the folder that holds `files`.
        environment: further variables. On the host it inherits only a few variables of this process, such as PATH.
        where: "host" runs it with the rights of this process, in an empty folder that is deleted after it; "sandbox"
            in the episode's own sandbox, in the folder with the task's files. There the gateway is all it can reach,
            and what it leaves is handed in when it ends.
        files: files of this host that are copied into its home in the sandbox.
        auxiliary_turns: whether its requests for titles and the like are turns of the episode; see Auxiliary.
        package: an installed package whose commands the sandbox has, such as "npm:@openai/codex@0.171.0"; see
            `agentgym sandbox program`.
    Raises: AgentGymError for an empty command, an unknown place, a file that does not exist, or a package that is not
        installed.
    """

    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    where: Literal["host", "sandbox"] = "host"
    files: tuple[str, ...] = ()
    auxiliary_turns: bool = False
    package: str = ""

    def __post_init__(self) -> None:
        if not self.command:
            raise AgentGymError("A program needs a command, for example ('python', 'agent.py').")
        if self.where not in WHERE:
            raise AgentGymError(f"A program cannot run where = {self.where!r}. Choose one of {', '.join(WHERE)}.")
        for name in ("files", "package"):
            if getattr(self, name) and not self.in_sandbox:
                raise AgentGymError(
                    f"A program on the host has no use for `{name}`. Set where = 'sandbox', or leave it out."
                )
        if self.package:
            rootfs.locate_program(self.package)
        for name in self.files:
            if not Path(name).is_file():
                raise AgentGymError(f"The program's file {name!r} does not exist in {Path.cwd()}. Check the path.")

    @classmethod
    def of(cls, program: AgentProgram | Mapping[str, Any] | Sequence[str] | None) -> AgentProgram | None:
        """Return a program, from its command or its arguments. Raises: as the class."""
        if program is None or isinstance(program, AgentProgram):
            return program
        options: Mapping[str, Any] = program if isinstance(program, Mapping) else {"command": list(program)}
        frozen: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in options.items()
        }
        return cls(**frozen)

    @property
    def in_sandbox(self) -> bool:
        """Return whether the program runs in the episode's sandbox."""
        return self.where == "sandbox"

    def check(self, environment: Environment) -> None:
        """Check that it can play in an environment, before any episode. Raises: AgentGymError saying what to do."""
        if self.in_sandbox:
            check_sandbox(environment)

    @property
    def installed(self) -> rootfs.InstalledProgram | None:
        """Its package; None without one. Raises: SandboxUnavailable if it is not installed."""
        return rootfs.locate_program(self.package) if self.package else None

    @asynccontextmanager
    async def running(self, loop: ProgramLoop, url: str, token: str) -> AsyncIterator[None]:
        """Run the program for an episode; end it and its children after the block.

        When the program ends by itself, the episode ends: with an answer or, if the program failed, without one.
        Raises: PolicyError if it does not start; SandboxError.
        """
        task = "\n\n".join(_words(message) for message in loop.opening)
        command = [part.replace("{task}", task) for part in self.command]
        if self.in_sandbox:
            variables_for = partial(self._variables, token=token, task=task)
            start = start_in_sandbox(loop, command, url, variables_for, files=self.files, installed=self.installed)
        else:
            start = start_on_host(command, self._variables(url, token, task))
        async with start as ended:
            watching = asyncio.create_task(self._watch(ended, loop))
            try:
                yield
            finally:
                watching.cancel()
                await asyncio.gather(watching, return_exceptions=True)

    def _variables(self, url: str, token: str, task: str) -> dict[str, str]:
        """Return the program's environment variables for an episode."""
        return {
            "OPENAI_BASE_URL": f"{url}/v1",
            "OPENAI_API_BASE": f"{url}/v1",
            "OPENAI_API_KEY": token,
            "ANTHROPIC_BASE_URL": url,
            "ANTHROPIC_API_KEY": token,
            "GOOGLE_GEMINI_BASE_URL": url,
            "GEMINI_API_KEY": token,
            "AGENTGYM_URL": url,
            "AGENTGYM_MCP_URL": f"{url}/mcp",
            "AGENTGYM_TOKEN": token,
            "AGENTGYM_TASK": task,
            **self.environment,
        }

    def _identity(self) -> dict[str, str]:
        installed = self.installed
        return {} if installed is None else {"package": installed.name, "digest": installed.digest}

    async def _watch(self, running: asyncio.Task[ProgramEnd], loop: ProgramLoop) -> None:
        """End the episode when the program ends; fail it if the sandbox fails, or if the program never asked."""
        try:
            end = await asyncio.shield(running)
            loop.note_program(
                command=list(self.command), exit_code=end.exit_code, output=end.output, **self._identity()
            )
            if not loop.has_answered:
                raise loop.refused or PolicyError(
                    f"The program ended with {end.exit_code} before it requested a message from the policy. Its output "
                    f"ended with: {end.output!r}"
                )
            if end.hand_in:
                await loop.hand_in(end.hand_in)
        except SandboxExhausted as error:  # caused by the agent, once it has acted
            if loop.has_answered:
                loop.end(StopReason.ENVIRONMENT)
            else:
                loop.fail(error)
        except Exception as error:  # noqa: BLE001  whatever it is, the episode fails with it
            loop.fail(error)
        else:
            loop.end(StopReason.ANSWERED if end.exit_code == 0 else StopReason.ENVIRONMENT)


def _words(message: Message) -> str:
    """Return the text of a message. Its images are at GET /episode."""
    count = len(message.images)
    note = f"[{counted(count, 'image')}: GET {{AGENTGYM_URL}}/episode]" if count else ""
    return "\n".join(filter(None, (message.text, note)))
