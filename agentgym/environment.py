"""The environment contract: a world and its tools. One instance per episode, never shared, always closed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

from agentgym.deprecation import adopt_renamed_members, renamed_member
from agentgym.errors import SandboxUnavailable, ToolError
from agentgym.messages import Call, Message, Result, ResultStatus
from agentgym.sandbox.contract import Backend, Sandbox, Snapshot, Usage
from agentgym.sandbox.limits import SandboxSpec
from agentgym.sandbox.metering import SandboxMeter, as_counts, metered
from agentgym.task import Task
from agentgym.threads import in_thread
from agentgym.tools import Tool, WrongArguments, render_output, tools_of


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The world at one moment: plain data, and the files of its sandbox. Live processes are not captured."""

    data: Mapping[str, Any] = field(default_factory=dict)
    snapshot: Snapshot | None = None


class Environment:
    """Base of every environment: subclass it, mark methods with `@tool`, register it.

    A subclass overrides `reset` if the task's own prompt is not the whole opening, `respond` if somebody
    answers when the agent speaks without a call, `state_key` and `checkpoint`/`restore` if the world has
    a canonical state, `progress` if it can tell how near the end is. It opens sandboxes with `open_sandbox`;
    `close` ends them.

    Attributes:
        sandbox: what the world's dangerous part runs in; None for a harmless in-memory world.
        reward: registered name of the reward that judges this environment unless a recipe says otherwise.
        backend: makes the sandboxes; set by `agentgym.make`.
    """

    sandbox: ClassVar[SandboxSpec | None] = None
    reward: ClassVar[str | None] = None
    tools: ClassVar[Mapping[str, Tool]] = {}

    backend: Backend | None = None
    _sandboxes: list[Sandbox]
    _meter: SandboxMeter
    _ended = False

    progress = renamed_member("potential")
    missing = renamed_member("unavailable_reason")
    images = renamed_member("image_digests")

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Sets what every instance has, so that a subclass need not call `super().__init__()`."""
        environment = super().__new__(cls)
        environment._sandboxes = []
        environment._meter = SandboxMeter()
        return environment

    @property
    def sandboxes(self) -> Sequence[Sandbox]:
        """The sandboxes that are open now, in the order they were opened."""
        return self._sandboxes

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        adopt_renamed_members(cls)
        cls.tools = tools_of(cls)

    @classmethod
    def unavailable_reason(cls) -> str:
        """What this machine lacks to play it, a package or a program, and how to get it; empty if nothing."""
        return ""

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        """Build the world of a task and return the opening messages. `task.truth` is always None here."""
        return task.opening()

    async def respond(self, message: Message) -> list[Message]:
        """Answer an agent message that holds no call, as a user or another actor would.

        Returns: messages to add; none ends the episode with the agent's message as its answer.
        """
        return []

    async def state_key(self) -> str | None:
        """Hash of the canonical state, for grouping equal states and checking replays; None if there is none."""
        return None

    async def potential(self) -> float | None:
        """How far the task has come, as a potential for credit: higher is nearer. None if the world cannot tell.

        Only trainers see it. It is a function of the state alone, on one scale for all episodes of a task.
        """
        return None

    async def checkpoint(self) -> Checkpoint | None:
        """The world as it is now; None if this world cannot be captured."""
        return None

    async def restore(self, task: Task, checkpoint: Checkpoint, *, seed: int) -> None:
        """Make a fresh instance continue from a checkpoint exactly as the original would."""
        raise NotImplementedError(f"{type(self).__name__} makes checkpoints but cannot restore them.")

    async def close(self) -> None:
        """Free everything. Always awaited, also when the episode is cancelled; may be called twice."""
        sandboxes, self._sandboxes = self._sandboxes, []
        failures = [
            answer
            for answer in await asyncio.gather(*(sandbox.close() for sandbox in sandboxes), return_exceptions=True)
            if isinstance(answer, BaseException)
        ]
        if failures:  # told only when every sandbox was closed
            raise failures[0]

    def end_episode(self) -> None:
        """Called by a tool or `respond` when the world itself is over; the turn's results still count."""
        self._ended = True

    @property
    def ended(self) -> bool:
        return self._ended

    async def open_sandbox(self, spec: SandboxSpec | None = None, *, snapshot: Snapshot | None = None) -> Sandbox:
        """A new sandbox that lives until `close`. Raises: SandboxUnavailable, LimitUnenforceable."""
        spec = spec or self.sandbox
        if spec is None or self.backend is None:
            raise SandboxUnavailable(
                f"{type(self).__name__} has no {'SandboxSpec' if spec is None else 'backend'}. Make it with "
                "agentgym.make(...), or set `sandbox` on the class and `backend` on the instance."
            )
        sandbox = await self.backend.create(spec, snapshot=snapshot)
        self._sandboxes.append(sandbox)
        return sandbox

    @property
    def image_digests(self) -> list[str]:
        """Digests of the images that its sandboxes run on; empty for the host's own programs."""
        digests = {getattr(sandbox, "image_digest", "") for sandbox in self._sandboxes}
        return sorted(digests - {""})

    async def usage(self) -> Usage:
        """What the sandboxes of this world have used since it was made, over resets and ends.

        Of a sandbox that was closed or died it counts what was read last. Peaks of several are added up.
        """
        return await self._meter.read(self._sandboxes)

    async def call(self, call: Call) -> Result:
        """Run one call and return its result, with what it used of sandboxes.

        Everything the agent does wrong is a result that says what to do instead. What this raises is
        never the agent's fault: SandboxError from the machine, any other exception from a broken tool.
        """
        if self.backend is None:  # no sandbox to be used
            return await self._call(call)
        with metered() as meter:
            result = await self._call(call)
        return replace(result, usage=counts) if (counts := as_counts(meter.used)) else result

    async def _call(self, call: Call) -> Result:
        if call.error is not None:
            return Result(call.error, ResultStatus.MALFORMED, call.name, call.id)
        tool = self.tools.get(call.name)
        if tool is None:
            return Result(self._unknown(call.name), ResultStatus.UNKNOWN_TOOL, call.name, call.id)
        started = time.perf_counter()
        status, truncated = ResultStatus.OK, False
        options = tool.options
        limit: asyncio.Timeout | None = None
        try:
            arguments = tool.validate(call.arguments)
            if options.inline and not tool.is_async:
                value = tool.function(self, **arguments)
            else:
                async with asyncio.timeout(options.timeout_s) as limit:
                    if tool.is_async:
                        value = await tool.function(self, **arguments)
                    else:
                        value = await in_thread(tool.function, self, **arguments)
            content, truncated = render_output(value, options.max_output_chars)
        except ToolError as error:
            content, truncated = render_output(str(error), options.max_output_chars)
            status = ResultStatus.TOOL_ERROR
        except WrongArguments as error:
            content, status = str(error), ResultStatus.WRONG_ARGUMENTS
        except TimeoutError:
            if limit is None or not limit.expired():
                raise  # not ours: something inside the tool timed out and was not handled there
            content, status = f"{call.name} took longer than {options.timeout_s:g} s.", ResultStatus.TIMEOUT
        except SystemExit as error:  # would end the whole run, not the tool
            raise RuntimeError(f"The tool {call.name!r} called sys.exit({error.code!r}).") from error
        final = options.final and status is ResultStatus.OK
        return Result(content, status, call.name, call.id, final, truncated, time.perf_counter() - started)

    def _unknown(self, name: str) -> str:
        known = "; ".join(tool.signature() for tool in self.tools.values())
        return f"There is no tool named {str(name)[:60]!r}. Tools: {known or 'none'}."
