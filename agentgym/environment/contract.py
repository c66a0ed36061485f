"""The environment contract: what the agent acts on, and its tools. One instance per episode, always closed."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

from agentgym.deprecation import RenamedMember, adopt_renamed_members, renamed_member
from agentgym.errors import SandboxError, SandboxUnavailable, ToolDefinitionError, ToolError
from agentgym.messages import Call, Message, Result, ResultStatus
from agentgym.sandbox import Backend, Sandbox, SandboxMeter, SandboxSpec, Snapshot, Usage, metered, usage_counts
from agentgym.task import Task
from agentgym.threads import in_thread
from agentgym.tools import Tool, WrongArguments, collect_tools, render_output, tools_by_name
from agentgym.tools.definition import is_tool

if TYPE_CHECKING:
    from agentgym.reward import Reward


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """An environment at one moment: plain data, and the files of its sandbox. Live processes are not captured."""

    data: Mapping[str, Any] = field(default_factory=dict)
    snapshot: Snapshot | None = None


@dataclass(frozen=True, slots=True)
class ContextChange:
    """In which context the agent goes on: in a new one with this opening, or, without one, in the one that waits.

    Attributes:
        nested, results: as of `Environment.begin_context` and `Environment.end_context`.
    """

    opening: Sequence[Message] = ()
    nested: bool = False
    results: Mapping[str, str] = field(default_factory=dict)


class Environment:
    """Base of every environment: subclass it, mark methods with `@tool`, register it.

    A subclass overrides `reset` if the task's own prompt is not the whole opening, `respond` if somebody answers when
    the agent speaks without a call, `state_key` and `checkpoint`/`restore` if it has a canonical state, `potential`,
    `hopeless` or `turns_needed` if it can tell how near the end is. It gets its sandbox from `default_sandbox`, or
    opens several with `open_sandbox`; `close` ends them.

    Free functions and tools made by `Tool.from_schema` are given to the class by the keyword `tools`, or to one
    instance by `add_tools`:

        class Shop(Environment, tools=[convert_currency, Tool.from_schema(...)]): ...

    Attributes:
        tools: the tools of this instance by name; of its class unless `add_tools` or `remove_tools` was called. The
            mapping is never changed in place: another mapping means other tools.
        sandbox: what its dangerous part runs in; None for a harmless environment in memory.
        reward: registered name of the reward that judges this environment unless a recipe says otherwise. An instance
            may hold a Reward of its own here, if it alone knows what its episode is worth.
        backend: makes the sandboxes; set by `agentgym.make`.
        public_truth: keys of a task's truth that its agent may read, such as an answer that stands in a given text.
        role: that the agent has now, where an episode has several; recorded with each turn.
    """

    sandbox: ClassVar[SandboxSpec | None] = None
    reward: str | Reward | None = None
    tools: Mapping[str, Tool] = {}

    backend: Backend | None = None
    public_truth: ClassVar[Sequence[str]] = ()
    role: str = ""
    _free_tools: ClassVar[tuple[Tool | Callable[..., Any], ...]] = ()
    _sandboxes: list[Sandbox]
    _default_sandbox: Sandbox | None = None
    _ended = False
    _context_change: ContextChange | None = None

    progress = renamed_member("potential")
    missing = renamed_member("unavailable_reason")
    images = renamed_member("image_digests")

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Sets what every instance has, so that a subclass need not call `super().__init__()`."""
        environment = super().__new__(cls)
        environment._sandboxes = []
        return environment

    @cached_property
    def _in_order(self) -> asyncio.Lock:
        """Held by a call of a tool that is not `parallel`."""
        return asyncio.Lock()

    @cached_property
    def _opening(self) -> asyncio.Lock:
        """Held while the default sandbox is opened."""
        return asyncio.Lock()

    @cached_property
    def _meter(self) -> SandboxMeter:
        return SandboxMeter()

    def __init_subclass__(cls, *, tools: Iterable[Tool | Callable[..., Any]] = (), **kwargs: Any) -> None:
        """Collect the tools: marked methods, and what the class keyword `tools` adds. Raises: ToolDefinitionError."""
        super().__init_subclass__(**kwargs)
        adopt_renamed_members(cls)
        cls._free_tools = (*cls._free_tools, *tools)
        cls.tools = collect_tools(cls, cls._free_tools)
        for attribute in vars(cls):
            framework = inspect.getattr_static(Environment, attribute, None)
            if is_tool(vars(cls)[attribute]) and framework is not None and not isinstance(framework, RenamedMember):
                raise ToolDefinitionError(
                    f"{cls.__qualname__}.{attribute} is a tool, but agentgym uses {attribute!r} of every environment. "
                    f"Give the method another name, and keep the tool's by @tool(name={attribute!r})."
                )

    def add_tools(self, *tools: Tool | Callable[..., Any]) -> None:
        """Give this instance more tools. The agent has them from its next turn on.

        Args:
            tools: functions that `@tool` marked, or tools made by `Tool.from_schema`.
        Raises: ToolDefinitionError for a name that is taken.
        """
        self.tools = tools_by_name((*self.tools.values(), *tools), type(self).__qualname__)

    def remove_tools(self, *names: str) -> None:
        """Take tools from this instance. The agent lacks them from its next turn on. Raises: KeyError."""
        if unknown := [name for name in names if name not in self.tools]:
            raise KeyError(f"{type(self).__qualname__} has no tools {unknown}. It has: {', '.join(self.tools)}.")
        self.tools = {name: tool for name, tool in self.tools.items() if name not in names}

    @property
    def sandboxes(self) -> Sequence[Sandbox]:
        """The sandboxes that are open now, in the order they were opened."""
        return self._sandboxes

    @classmethod
    def unavailable_reason(cls) -> str:
        """What this host lacks to run it, a package or a program, and how to get it; empty if nothing."""
        return ""

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        """Begin a task and return the opening messages. `task.truth` is always None here."""
        return task.opening()

    async def respond(self, message: Message) -> list[Message]:
        """Answer an agent message that holds no call, as a user or another actor would.

        Returns: messages to add; none ends the episode with the agent's message as its answer.
        """
        return []

    def private_texts(self) -> Sequence[str]:
        """Texts of this episode that the agent must never read, such as the goal of a simulated user.

        The conformance checks look for them in all that agents are shown.
        """
        return ()

    async def state_key(self) -> str | None:
        """Hash of the canonical state, for grouping equal states and checking replays; None if there is none."""
        return None

    async def potential(self) -> float | None:
        """How far the task has come, as a potential for credit: higher is nearer. None if that is unknown.

        Only trainers see it. It is a function of the state alone, on one scale for all episodes of a task.
        """
        return None

    async def hopeless(self) -> str | None:
        """Why the task cannot be solved any more, in words; None while it can, or if that is unknown.

        Only the stop rules of a rollout ask (see `RolloutConfig.stop_if`); the agent is not told.
        """
        return None

    async def turns_needed(self) -> int | None:
        """The fewest turns in which the task can still be solved, as the oracle would; None if that is unknown.

        Asked as `hopeless` is.
        """
        return None

    async def checkpoint(self) -> Checkpoint | None:
        """The environment as it is now; None if it cannot be captured."""
        return None

    async def restore(self, task: Task, checkpoint: Checkpoint, *, seed: int) -> None:
        """Make a fresh instance continue from a checkpoint exactly as the original would."""
        raise NotImplementedError(f"{type(self).__name__} makes checkpoints but cannot restore them.")

    async def close(self) -> None:
        """Free everything. Always awaited, also when the episode is cancelled; may be called twice."""
        sandboxes, self._sandboxes, self._default_sandbox = self._sandboxes, [], None
        outcomes = await asyncio.gather(*(sandbox.close() for sandbox in sandboxes), return_exceptions=True)
        failures = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        if failures:  # raised only when every sandbox was closed
            raise failures[0]

    def end_episode(self) -> None:
        """Called by a tool or `respond` when the environment itself is over; the turn's results still count."""
        self._ended = True

    def begin_context(self, opening: Sequence[Message], *, nested: bool = False) -> None:
        """Called by a tool or `respond` when the agent is to go on from these messages alone, and forget the rest.

        The next turn then begins a row of the trajectory (docs/actors.md), with the tools that the environment has by
        then. A player that cannot forget, such as a program with a history of its own, reads what the call returns: say
        there what the opening says.

        Args:
            nested: the context that is left waits until `end_context` goes back to it.
        """
        self._context_change = ContextChange(tuple(opening), nested)

    def end_context(self, results: Mapping[str, str]) -> None:
        """Called by a tool or `respond` when the agent is to go on in the context that waits for this one.

        Args:
            results: what the calls of its last message have come to meanwhile, by their ids. One that failed stays so.
        """
        self._context_change = ContextChange(results=dict(results))

    @property
    def changes_context(self) -> bool:
        """Whether the agent goes on in another context than this turn's."""
        return self._context_change is not None

    def take_context_change(self) -> ContextChange | None:
        """What was begun or ended since this was last asked; None if nothing was."""
        change, self._context_change = self._context_change, None
        return change

    @property
    def ended(self) -> bool:
        """Whether `end_episode` was called since the last reset."""
        return self._ended

    async def default_sandbox(self) -> Sandbox:
        """The one sandbox that most environments need: opened at the first use, with the spec of the class.

        Raises: SandboxUnavailable, LimitUnenforceable.
        """
        async with self._opening:
            if self._default_sandbox is None:
                self._default_sandbox = await self.open_sandbox()
            return self._default_sandbox

    async def empty_sandbox(self) -> Sandbox:
        """The default sandbox without anything in it: what an earlier task left there is gone."""
        if self._default_sandbox is not None:
            await self._default_sandbox.reset()
        return await self.default_sandbox()

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
    def unwrapped(self) -> Environment:
        """The environment itself; for a wrapper, the environment that it wraps."""
        return self

    @property
    def image_digests(self) -> list[str]:
        """Digests of the images that its sandboxes run on; empty for the host's own programs."""
        digests = {getattr(sandbox, "image_digest", "") for sandbox in self._sandboxes}
        return sorted(digests - {""})

    async def usage(self) -> Usage:
        """What the sandboxes of this environment have used since it was made, over resets and ends.

        Of a sandbox that was closed or died it counts what was read last. Peaks of several are added up.
        """
        return await self._meter.read(self._sandboxes)

    async def call(self, call: Call) -> Result:
        """Run one call and return its result, with what it used of sandboxes.

        Everything the agent does wrong is a result that says what to do instead. What this raises is
        never the agent's fault: SandboxError from the sandbox, any other exception from a broken tool.
        """
        if call.error is not None:
            return Result(call.error, ResultStatus.MALFORMED, call.name, call.id)
        tool = self.tools.get(call.name)
        if tool is None:
            return Result(self._unknown(call.name), ResultStatus.UNKNOWN_TOOL, call.name, call.id)
        run = self._run_call if self.backend is None else self._run_metered
        if tool.options.parallel:
            return await run(tool, call)
        async with self._in_order:
            return await run(tool, call)

    async def _run_metered(self, tool: Tool, call: Call) -> Result:
        """As `_run_call`, with what the call used of sandboxes."""
        with metered() as meter:
            result = await self._run_call(tool, call)
        return replace(result, usage=counts) if (counts := usage_counts(meter.used)) else result

    async def _run_call(self, tool: Tool, call: Call) -> Result:
        """Run one call of a tool that exists, and turn every way it may end into a result."""
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
                        if inspect.isawaitable(value):  # a lambda that returns a coroutine, for example
                            value = await value
            content, truncated = render_output(value, options.max_output_chars)
        except ToolError as error:
            cause = error.__cause__
            if isinstance(cause, SandboxError) and not isinstance(cause, ToolError):
                # A sandbox that died is a ConnectionError, which a tool may take for an error of one of its files.
                raise cause from cause.__cause__
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
