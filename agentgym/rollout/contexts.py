"""The contexts of an episode: the current conversation, and those waiting for a nested one to end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from agentgym.environment import ContextChange
from agentgym.environment.contexts import take_context_change
from agentgym.environment.contract import Environment
from agentgym.messages import Message
from agentgym.policy.contract import Policy
from agentgym.rollout.budgets import BudgetUsage, EpisodeOver, TokenLimit
from agentgym.rollout.conversation import Conversation, tools_change
from agentgym.rollout.environments import EnvironmentFactory, ToolSchemas
from agentgym.rollout.failures import Retries
from agentgym.trajectory import Row
from agentgym.trajectory.record import Trajectory
from agentgym.trajectory.turn import Turn

NO_TOOLS = ToolSchemas({}, (), {})
"""The tools of an episode before its environment is reset."""


class Contexts:
    """Shows the agent the results of a turn, in the context where the agent continues, and counts the tokens read.

    Most episodes have one context. An environment may begin and end further contexts, and add and remove tools.

    Args:
        retries: records the current activity, for error messages.
    Attributes:
        current: the agent's current conversation.
        row: the number of that conversation's row in the trajectory; 0 is the first.
        tools: the tools as last read.
    """

    def __init__(
        self,
        trajectory: Trajectory,
        policy: Policy,
        usage: BudgetUsage,
        environments: EnvironmentFactory,
        retries: Retries,
    ) -> None:
        self._trajectory, self._policy, self._usage = trajectory, policy, usage
        self._environments, self._retries = environments, retries
        self.current = Conversation((), (), None)
        self.row = 0
        self.tools = NO_TOOLS
        # contexts that wait for a nested one, and the turn that began it
        self._waiting: list[tuple[Conversation, Turn]] = []
        self._unsettled: list[Turn] = []
        self._restarted: ContextChange | None = None

    def open(self, opening: Sequence[Message], environment: Environment) -> None:
        """Begin the first context."""
        trajectory = self._trajectory
        self.current = Conversation(opening, self.read_tools(environment).schemas, self._policy.renderer)
        trajectory.prompt_ids = self.current.prompt_ids
        if self.tools.tools is not type(environment).tools:
            trajectory.tools = self.tools.schemas

    def read_tools(self, environment: Environment) -> ToolSchemas:
        """Return the current tools: an environment may add and remove tools during an episode."""
        if environment.tools is not self.tools.tools:
            self.tools = self._environments.tool_schemas(environment)
        return self.tools

    def token_limit(self) -> TokenLimit:
        """Return the token limit of the next message. Raises: EpisodeOver if there is no room for a message."""
        limit = self._usage.token_limit(self.current.room(self._policy.context_tokens))
        if limit.tokens <= 0:
            raise EpisodeOver(limit.reason)
        return limit

    def show(self, turn: Turn, environment: Environment) -> None:
        """Show the agent the results of a turn, or the new context if the environment changed context in the turn.

        Raises: EpisodeOver if these messages leave no room for a reply.
        """
        change, self._restarted = self._restarted or take_context_change(environment), None
        if change is None:
            if environment.tools is not self.tools.tools:
                self._announce_tools(turn, environment)
            self._append(turn)
        elif change.opening:
            self._begin(turn, change, environment)
        else:
            self._end(turn, change.results, environment)

    def restart(self, opening: Sequence[Message]) -> None:
        """Let the agent continue in a new first context; waiting contexts are dropped."""
        self._waiting.clear()
        self._restarted = ContextChange(tuple(opening))

    def settle(self, turn: Turn) -> Sequence[Turn]:
        """Return the turns whose results are now final: none while a context waits for a nested one."""
        self._unsettled.append(turn)
        if self._waiting:
            return ()
        settled, self._unsettled = self._unsettled, []
        return settled

    def _begin(self, turn: Turn, change: ContextChange, environment: Environment) -> None:
        self._retries.doing = ("rendering the context that follows turn {}", turn.index)
        tools = self.read_tools(environment).schemas
        if change.nested:
            self._waiting.append((self.current, turn))
        parent = self._waiting[-1][1] if self._waiting else turn
        row = Row(change.opening, tools=tools, parent=parent.index)
        self.current = Conversation(change.opening, tools, self._policy.renderer)
        row.prompt_ids = self.current.prompt_ids
        self._count(row.prompt_ids)
        self._trajectory.further_rows.append(row)
        self.row = len(self._trajectory.further_rows)

    def _end(self, turn: Turn, results: Mapping[str, str], environment: Environment) -> None:
        self.read_tools(environment)
        if not self._waiting:
            raise RuntimeError(
                f"end_context was called in turn {turn.index}, but no outer context is waiting. Call begin_context "
                "first."
            )
        self.current, waiting = self._waiting.pop()
        self.row = waiting.row
        waiting.results = tuple(
            replace(r, content=results.get(r.call_id, r.content)) if r.ok else r for r in waiting.results
        )
        self._append(waiting)

    def _announce_tools(self, turn: Turn, environment: Environment) -> None:
        """Add a message to the turn if the schemas of the tools changed during the turn."""
        before = self.tools.schemas
        if (after := self.read_tools(environment).schemas) is not before and (text := tools_change(before, after)):
            turn.replies = (*turn.replies, Message("user", text))

    def _append(self, turn: Turn) -> None:
        self._retries.doing = ("rendering what came back in turn {}", turn.index)
        observation_ids = self.current.append(turn)
        if self.current.prefix_ids is None:  # these tokens are counted with the next reply
            return
        self._count(observation_ids)
        turn.observation_ids = observation_ids

    def _count(self, read_ids: list[int]) -> None:
        """Count tokens that the agent reads next. Raises: EpisodeOver if they leave no room for a reply."""
        self._usage.tokens += len(read_ids)
        self.token_limit()
