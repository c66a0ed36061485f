"""The environment contract: what the agent acts on, and its tools. One instance per episode, always closed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

from agentgym.environment.old_names import OldNames, adopt_old_overrides
from agentgym.environment.running import run_call
from agentgym.environment.sandboxes import EnvironmentSandboxes
from agentgym.environment.state import Checkpoint, Outlook
from agentgym.environment.workspace import Workspace
from agentgym.errors import SandboxUnavailable
from agentgym.messages import Call, Message, Result
from agentgym.sandbox import Backend, Sandbox, Snapshot
from agentgym.sandbox.limits import SandboxSpec
from agentgym.sandbox.time_limit import uncounted
from agentgym.task.definition import Task
from agentgym.tools.definition import Tool, tools_by_name

if TYPE_CHECKING:
    from agentgym.reward.contract import Reward


class Environment(OldNames):
    """Base of every environment: subclass it, mark methods with `@tool`, register it.

    Give free functions and tools made by `Tool.from_schema` to a class with the keyword `tools`, as in
    `class Shop(Environment, tools=[convert_currency, Tool.from_schema(...)])`, or to one instance with `add_tools`. An
    environment whose agent can continue with a new prompt (another context) also derives from `HasContexts`.

    Attributes:
        sandbox: spec of the sandbox in which untrusted code runs; None for a harmless in-memory environment.
        reward: registered name of the default reward of this environment; a recipe may name another. An instance
            may set a Reward object instead, if only the instance can judge its episode.
        task_set: registered name of a task set for this environment, if there is one; `agentgym check` and `call` play
            its tasks by default.
        tools: the tools of this instance by name, initially the tools of its class. Never change the mapping in place:
            assign another mapping to give the agent other tools from its next turn on.
        role: the agent's current role, if an episode has several; recorded with each turn.
        ended: whether `end_episode` was called; `reset` sets it to False again.
        public_truth: keys of a task's truth that the agent may read, such as an answer contained in a given text.
        private_texts: texts the agent must never read, such as a simulated user's goal; set by `reset`, for checks.
        backend: creates the sandboxes; set by `agentgym.make`.
        is_remote: whether results are read on other machines, so that none may name a file of this one.
        sandboxes: the open sandboxes, and the resources used so far.
    """

    sandbox: ClassVar[SandboxSpec | None] = None
    reward: str | Reward | None = None
    task_set: ClassVar[str] = ""
    tools: Mapping[str, Tool] = {}
    role: str = ""
    ended: bool = False
    public_truth: ClassVar[Sequence[str]] = ()
    private_texts: Sequence[str] = ()
    backend: Backend | None = None
    is_remote: bool = False
    sandboxes: EnvironmentSandboxes
    _in_order: asyncio.Lock
    _free_tools: ClassVar[tuple[Tool | Callable[..., Any], ...]] = ()

    # ---- Override these -------------------------------------------------------------------------------------------

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        """Start a task and return the opening messages. `task.truth` is always None here."""
        return task.opening()

    async def respond(self, message: Message) -> list[Message]:
        """Answer an agent's message that has no call, as a user would. To end the episode, return an empty list."""
        return []

    async def close(self) -> None:
        """Free all resources. Always awaited, even if the episode is cancelled; may be called twice."""
        await self.sandboxes.close()

    # ---- Optional overrides ---------------------------------------------------------------------------------------

    @classmethod
    def least_turns(cls, task: Task) -> int:
        """Return the fewest turns in which a task can be solved, as far as this is known before the episode.

        Defaults to the task's `parameters["least_turns"]`, else 1. Evaluations warn if `max_turns` is smaller.
        """
        least = task.parameters.get("least_turns")
        return least if isinstance(least, int) and least > 0 else 1

    @classmethod
    def reward_hacks(cls, task: Task) -> Mapping[str, Sequence[Message]]:
        """Return scripts that try to be paid without solving a task, by what the agent does ("plants tests").

        None of them may be paid: `agentgym tasks import --validate` and `agentgym check` play them.
        Raises: TaskError for a task that cannot be read.
        """
        return {}

    @classmethod
    def unavailable_reason(cls) -> str:
        """Return which package or program this host lacks for the environment, and how to get it; "" if none."""
        return ""

    async def state_key(self) -> str | None:
        """Return a hash of the canonical state, to group equal states and check replays; None if unsupported."""
        return None

    async def potential(self) -> float | None:
        """Return how close the state is to solving the task, for credit: higher is closer, on one scale per task."""
        return None

    async def outlook(self) -> Outlook | None:
        """Return how the task can still end from here, for stop rules (see `RolloutConfig.stop_if`)."""
        return None

    async def workspace(self) -> Workspace | None:
        """Return where an agent program works after the reset; None if programs cannot work here.

        By default it is /work of the default sandbox, once that is open, with no tool to hand the files in.
        """
        return None if self.sandboxes.default is None else Workspace(self.sandboxes.default)

    async def checkpoint(self) -> Checkpoint | None:
        """Return a checkpoint of the current state; None if the state cannot be captured."""
        return None

    async def restore(self, task: Task, checkpoint: Checkpoint, *, seed: int) -> None:
        """Make a fresh instance continue from a checkpoint exactly as the original would."""
        raise NotImplementedError(
            f"{type(self).__name__} makes checkpoints, but does not override `restore`, so they cannot be used."
        )

    # ---- Call these -----------------------------------------------------------------------------------------------

    async def default_sandbox(self, *, empty: bool = False) -> Sandbox:
        """Return the one sandbox that most environments need, opened on first use with the class's spec.

        `empty` removes what an earlier task left in the sandbox. Raises: SandboxUnavailable, LimitUnenforceable.
        """
        return await self.sandboxes.open_default(self.open_sandbox, empty=empty)

    async def open_sandbox(self, spec: SandboxSpec | None = None, *, snapshot: Snapshot | None = None) -> Sandbox:
        """Open a new sandbox that lives until `close`. Raises: SandboxUnavailable, LimitUnenforceable."""
        spec = spec or self.sandbox
        if spec is None or self.backend is None:
            raise SandboxUnavailable(
                f"{type(self).__name__} has no {'SandboxSpec' if spec is None else 'backend'}. Create it by "
                "agentgym.make(...), or set `sandbox` on the class and `backend` on the instance."
            )
        with uncounted():
            return self.sandboxes.add(await self.backend.create(spec, snapshot=snapshot))

    def add_tools(self, *tools: Tool | Callable[..., Any]) -> None:
        """Add tools to this instance: functions marked with `@tool`, or tools made by `Tool.from_schema`.

        To remove tools, assign a mapping without them to `self.tools`. Raises: ToolDefinitionError for a taken name.
        """
        self.tools = tools_by_name((*self.tools.values(), *tools), type(self).__qualname__)

    def end_episode(self) -> None:
        """End the episode after this turn, from a tool or `respond`; the turn's results still count."""
        self.ended = True

    # ---- The framework calls these --------------------------------------------------------------------------------

    def call(self, call: Call) -> Coroutine[Any, Any, Result]:
        """Run one call and return its result, with the sandbox resources it used; to be awaited.

        Every mistake of the agent becomes a result that says what to do instead. Raises: SandboxError from the sandbox,
        any other exception from a broken tool; neither is the agent's fault.
        """
        return run_call(self.tools, self, call, self._in_order, meter=self.backend is not None)

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Set the attributes of every instance, so that a subclass need not call `super().__init__()`."""
        environment = super().__new__(cls)
        environment.sandboxes = environment._make_sandboxes()
        environment._in_order = asyncio.Lock()  # held while a call of a tool with `parallel=False` runs
        return environment

    def __init_subclass__(cls, *, tools: Iterable[Tool | Callable[..., Any]] = (), **kwargs: Any) -> None:
        """Collect the tools: marked methods, and tools in the class keyword `tools`. Raises: ToolDefinitionError."""
        super().__init_subclass__(**kwargs)
        adopt_old_overrides(cls)
        cls._free_tools = (*cls._free_tools, *tools)
        cls.tools = Tool.collect(cls, cls._free_tools, reserved={*dir(Environment), "sandboxes"})
