"""with_delegation: a planner hands tasks to executors, who work in separate contexts."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from agentgym import Call, Environment, Message, Result, ResultStatus, Task, Tool, ToolDefinitionError, ToolError, tool
from agentgym.environment import ContextChange, EnvironmentWrapper

PLANNER, EXECUTOR = "planner", "executor"
MAX_REPORT_CHARS = 2_000
SAME_ID = "Another call of this message has the same id, so this task was not handed over."
PLAN = (
    "You plan. Hand parts of the task to executors by delegate(task): each reads only the text that you give it, "
    "has the tools, and reports back in words. What they report comes as the result of your call."
)
EXECUTE = "You do one part of a larger task with the tools. When it is done, call report with what was asked for."


@dataclass(frozen=True, slots=True)
class DelegationLimits:
    """Limits of a team.

    Attributes:
        tasks: most tasks handed to executors in an episode. task_chars: most characters of each.
        calls: most calls of an executor, including calls of unknown tools. An executor that has used them up ends, and
            its planner is told.
    Raises: ValueError for a limit below 1.
    """

    tasks: int = 8
    task_chars: int = 2_000
    calls: int = 16

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if value < 1:
                raise ValueError(f"DelegationLimits.{name} = {value} is not valid: give at least 1.")


def with_delegation(
    make: Callable[[], Environment],
    *,
    plan: str = PLAN,
    execute: str = EXECUTE,
    limits: DelegationLimits = DelegationLimits(),
) -> Callable[[], Delegation]:
    """Return a factory of environments with a planner and executors, for `RolloutConfig(environment=...)` or
    `register`.

    Args:
        make: makes the environment, for example `functools.partial(agentgym.make, "agentgym/sql-v1")`.
        plan, execute: system message of each role.
    Source: CoDA, Liu et al. 2025, arXiv:2512.12716: one set of weights in both roles, and the outcome paid to both.
    """
    return lambda: Delegation(make(), plan, execute, limits)


@dataclass(slots=True)
class _Order:
    """A task that the planner handed over, and the call by which it did so."""

    call_id: str
    task: str


class Delegation(EnvironmentWrapper):
    """An environment in which a planner hands tasks to executors, who have the tools. It is as isolated as the wrapped
    one.

    The planner has `delegate(task)` and the environment's tools that end an episode; the environment answers its
    messages without a call. An executor has the other tools and `report(text)`; its message without a call is its
    report. Each executor is a row of the trajectory (docs/actors.md). If one message has several calls, their executors
    work one after the other, on the same environment.

    Args:
        environment, plan, execute, limits: as for `with_delegation`.
    """

    begins_contexts = True

    def __init__(
        self,
        environment: Environment,
        plan: str = PLAN,
        execute: str = EXECUTE,
        limits: DelegationLimits = DelegationLimits(),
    ) -> None:
        super().__init__(environment)
        self._plan, self._execute, self._limits = plan, execute, limits
        self._own = type(self).tools
        self._orders: list[_Order] = []
        self._reports: dict[str, str] = {}
        self._handed_over = self._calls = 0
        self._next_role = PLANNER

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        """Begin a task. Raises: ToolDefinitionError if an environment tool has the name of a team tool."""
        self.ended, self._orders, self._reports, self._handed_over = False, [], {}, 0
        opening = await self._environment.reset(task, seed=seed)
        self._take_role(PLANNER)
        return [Message("system", self._plan), *opening]

    @tool(inline=True)
    def delegate(self, task: str) -> str:
        """Hand a part of the task to an executor. Returns what it reports."""
        if not task.strip() or len(task) > self._limits.task_chars:
            raise ToolError(
                f"A task must have 1 to {self._limits.task_chars} characters, but this one has {len(task)}."
            )
        if self._handed_over >= self._limits.tasks:
            raise ToolError(f"You have already handed over {self._limits.tasks} tasks, which is the limit.")
        return "Handed over."

    @tool(inline=True)
    def report(self, text: str) -> str:
        """Report what you have found or done. Ends your part."""
        return self._conclude(text)

    async def respond(self, message: Message) -> list[Message]:
        if self.role == PLANNER:
            return await self._environment.respond(message)
        return [Message("user", self._conclude(message.text))]

    async def call(self, call: Call) -> Result:
        if call.name not in self.tools or call.error is not None or call.name in self._own:
            result = await self.call_own(call)
            if result.ok and call.name == "delegate":
                if call.id in self._reports or any(order.call_id == call.id for order in self._orders):
                    return replace(result, content=SAME_ID, status=ResultStatus.TOOL_ERROR)
                self._queue(_Order(call.id, str(call.arguments["task"])))
        else:
            result = await self._environment.call(call)
        if self.role == EXECUTOR:
            self._calls += 1
            if self._calls >= self._limits.calls and not self.changes_context:
                self._conclude(f"The executor has used up its {self._limits.calls} calls and reported nothing.")
        self._take_role(self.role)  # an environment may add and remove tools
        return result

    def _queue(self, order: _Order) -> None:
        self._orders.append(order)
        self._handed_over += 1
        if len(self._orders) == 1:
            self._begin(nested=True)

    def _begin(self, *, nested: bool = False) -> None:
        """Start an executor on the first order."""
        self._next_role = EXECUTOR
        opening = [Message("system", self._execute), Message("user", self._orders[0].task)]
        self.begin_context(opening, nested=nested)

    def _conclude(self, report: str) -> str:
        """End an executor: start the next one, or return to the planner. Returns: the report."""
        if self.changes_context:
            raise ToolError("You have already reported.")
        order = self._orders.pop(0)
        self._reports[order.call_id] = report = report[:MAX_REPORT_CHARS]
        if self._orders:
            self._begin()
        else:
            self._next_role = PLANNER
            self.end_context(self._reports)
            self._reports = {}
        return report

    def take_context_change(self) -> ContextChange | None:
        """Return the pending change of context, if any.

        With it the role changes, once all calls of a message are answered.
        """
        if (change := super().take_context_change()) is not None:
            self._calls = 0
            self._take_role(self._next_role)
        return change

    def _take_role(self, role: str) -> None:
        """Give the agent a role and its tools. Raises: ToolDefinitionError."""
        tools = self._environment.tools
        if clash := tools.keys() & self._own.keys():
            name = type(EnvironmentWrapper.unwrap(self._environment)).__qualname__
            raise ToolDefinitionError(
                f"{name} has a tool {sorted(clash)[0]!r}, which is also the name of a tool of the team. Remove it "
                "from the environment, or give it another name."
            )
        mine: dict[str, Tool] = {name: each for name, each in tools.items() if each.options.final == (role == PLANNER)}
        own = "delegate" if role == PLANNER else "report"
        if role != self.role or self.tools.keys() != {*mine, own}:
            self.tools = {own: self._own[own], **mine}
        self.role = role

    async def state_key(self) -> str | None:
        """Return the environment's key together with the current role and the task handed over.

        It counts nothing, so that a state can recur.
        """
        if (key := await self._environment.state_key()) is None:
            return None
        text = repr((key, self.role, [order.task for order in self._orders], self._reports))
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]

    def data(self) -> dict[str, Any]:
        return {
            "role": self.role,
            "orders": [[order.call_id, order.task] for order in self._orders],
            "reports": self._reports,
            "counts": [self._handed_over, self._calls],
        }

    def restore_data(self, task: Task, data: Mapping[str, Any]) -> None:
        self._orders = [_Order(*order) for order in data["orders"]]
        self._reports = dict(data["reports"])
        self._handed_over, self._calls = data["counts"]
        self._take_role(data["role"])
