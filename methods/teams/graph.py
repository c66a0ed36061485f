"""with_team_graph: the agent first builds a team of roles and reading links, which then does the task."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from agentgym import AgentGymError, Call, Environment, Message, Result, Task, ToolError, tool
from agentgym.environment import ContextChange

from .pipeline import TASK, Pipeline, PipelineStage, check_role

BUILDER = "builder"
BUILD = (
    "Build a team that does the task: add roles, add edges from one role to another that shall read what it says, and "
    "call done. Each role reads the task, too; the last one does what the task asks for. Take one action at a time."
)


@dataclass(frozen=True, slots=True)
class TeamRole:
    """A role that the agent may add to its team.

    Attributes:
        prompt: the role's prompt, before the task and other roles' messages.
        tools: the names of those tools of the environment that the role has. The last role also has those that end an
            episode.
    """

    prompt: str
    tools: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TeamLimits:
    """Size limits of a team.

    Raises: ValueError for a limit below 1.
    """

    roles: int = 6
    edges: int = 12

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if value < 1:
                raise ValueError(f"TeamLimits.{name} = {value} is not valid: give at least 1.")


def with_team_graph(
    make: Callable[[], Environment],
    roles: Mapping[str, TeamRole],
    *,
    build: str = BUILD,
    limits: TeamLimits = TeamLimits(),
) -> Callable[[], TeamGraph]:
    """Return a factory of environments whose agent builds its own team, for `RolloutConfig(environment=...)` or
    `register`.

    Args:
        make: makes the environment, for example `functools.partial(agentgym.make, "agentgym/search-v1")`.
        roles: the available roles, keyed by name.
        build: system message during building; the roles are listed below it.
    Raises: AgentGymError without roles, or for a name that cannot be used in a prompt.
    Source: MasHost, Yang et al. 2025, arXiv:2506.08507: roles and edges of the team's graph as the actions of a policy.
    """
    roles = dict(roles)
    if not roles:
        raise AgentGymError("`roles` is empty, but a team is built from at least one role. Give one.")
    for name in roles:
        check_role(name, (TASK, BUILDER))
    return lambda: TeamGraph(make(), roles, build, limits)


class TeamGraph(Pipeline):
    """An environment whose agent builds a team, which then does the task as a pipeline. It is as isolated as the
    wrapped one.

    First the agent is the `builder`, in a row of its own, with the tools add_role(name), add_edge(source, target) and
    done(). Then the roles work, each in a row of its own and after all roles that it reads; where the order is free,
    the role that was added earlier comes first. A call fails if it asks for a role that is unknown or already in the
    team, an edge between roles that are not in the team, an edge that closes a cycle, or a team without roles.

    Args:
        environment, roles, build, limits: as for `with_team_graph`.
    """

    def __init__(
        self,
        environment: Environment,
        roles: Mapping[str, TeamRole],
        build: str = BUILD,
        limits: TeamLimits = TeamLimits(),
    ) -> None:
        super().__init__(environment, tuple(PipelineStage(name, "", role.tools) for name, role in roles.items()))
        self._offered, self._build, self._limits = dict(roles), build, limits
        self._all_stages = self._stages
        self._own = type(self).tools
        self._roles: list[str] = []
        self._edges: list[tuple[str, str]] = []
        self._is_built = False

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        """Begin a task. Raises: AgentGymError for a role with a tool that the environment lacks."""
        self._roles, self._edges, self._is_built = [], [], False
        self._number, self._stages = 0, self._all_stages
        opening = await self._reset_environment(task, seed)
        self._be_builder()
        listed = [
            f"- {name}: {role.prompt}" + f" (tools: {', '.join(role.tools)})" * bool(role.tools)
            for name, role in self._offered.items()
        ]
        return [Message("system", "\n".join([self._build, "Roles:", *listed])), *opening]

    def _be_builder(self) -> None:
        self.role, self.tools = BUILDER, self._own

    @tool(inline=True)
    def add_role(self, name: str) -> str:
        """Add a role to the team."""
        self._check_open()
        if name not in self._offered:
            raise ToolError(f"There is no role {name!r:.60}. Roles: {', '.join(self._offered)}.")
        if name in self._roles:
            raise ToolError(f"The team already has {name!r}.")
        if len(self._roles) == self._limits.roles:
            raise ToolError(f"The team already has {self._limits.roles} roles, which is the limit.")
        self._roles.append(name)
        return f"The team: {', '.join(self._roles)}."

    @tool(inline=True)
    def add_edge(self, source: str, target: str) -> str:
        """Let one role of the team, the target, read what another one, the source, says."""
        self._check_open()
        for name in (source, target):
            if name not in self._roles:
                raise ToolError(
                    f"The team has no role {name!r:.60}. Add it first. It has: {', '.join(self._roles) or 'none'}."
                )
        if (source, target) in self._edges:
            raise ToolError(f"There is already an edge from {source!r} to {target!r}.")
        if path := self._path(target, source):
            raise ToolError(f"This edge would close a circle: {' -> '.join([*path, target])}.")
        if len(self._edges) == self._limits.edges:
            raise ToolError(f"The team already has {self._limits.edges} edges, which is the limit.")
        self._edges.append((source, target))
        return f"{target} reads {', '.join(self._read_by(target))}."

    @tool(inline=True)
    def done(self) -> str:
        """Let the team do the task."""
        self._check_open()
        if not self._roles:
            raise ToolError("The team has no roles. Add one first.")
        self._stages = self._team()
        opening = self._opening_of_stage()
        self.begin_context(opening)
        return "\n\n".join(message.text for message in opening)

    def _check_open(self) -> None:
        if self.changes_context:
            raise ToolError("The team is already built.")

    def _read_by(self, role: str) -> list[str]:
        """Return the roles whose messages a role reads."""
        return [source for source, target in self._edges if target == role]

    def _path(self, source: str, target: str) -> list[str]:
        """Return the roles on a shortest path along the edges, including both ends; empty if there is none."""
        paths, reached = [[source]], {source}
        for path in paths:  # `paths` grows during the loop
            if path[-1] == target:
                return path
            for before, after in self._edges:
                if before == path[-1] and after not in reached:
                    reached.add(after)
                    paths.append([*path, after])
        return []

    def _team(self) -> tuple[PipelineStage, ...]:
        """Return the added roles as stages, each after the roles that it reads."""
        waiting, order = list(self._roles), list[str]()
        while waiting:
            order.append(next(role for role in waiting if not set(self._read_by(role)) - set(order)))
            waiting.remove(order[-1])
        return tuple(self._stage(role) for role in order)

    def _stage(self, name: str) -> PipelineStage:
        role = self._offered[name]
        instruction = role.prompt.replace("{", "{{").replace("}", "}}")
        outputs = [f"{other} says:\n{{{other}}}" for other in self._read_by(name)]
        return PipelineStage(name, "\n\n".join([instruction, f"{{{TASK}}}", *outputs]), role.tools)

    async def respond(self, message: Message) -> list[Message]:
        if self._is_built:
            return await super().respond(message)
        return [Message("user", "Call add_role, add_edge or done.")]

    async def call(self, call: Call) -> Result:
        return await (super().call(call) if self._is_built else self.call_own(call))

    def take_context_change(self) -> ContextChange | None:
        """Return the pending change of context, if any.

        With it the builder becomes the first role, once all calls are answered.
        """
        if (change := super().take_context_change()) is not None:
            self._is_built = True
        return change

    def data(self) -> dict[str, Any]:
        edges = [list(edge) for edge in self._edges]
        return {**super().data(), "roles": list(self._roles), "edges": edges, "built": self._is_built}

    def restore_data(self, task: Task, data: Mapping[str, Any]) -> None:
        self._roles, self._is_built = list(data["roles"]), data["built"]
        self._edges = [(source, target) for source, target in data["edges"]]
        self._stages = self._team() if self._is_built else self._all_stages
        super().restore_data(task, data)
        if not self._is_built:
            self._be_builder()
