"""One episode of ours that a program outside plays: it reads requests and says what the agent says."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from agentgym.errors import PolicyLeft, TaskError
from agentgym.messages import Call, Message, Result, ResultStatus
from agentgym.policy import Policy, Reply, Request
from agentgym.rollout import EpisodeManager, RolloutConfig
from agentgym.storage.ledger import Ledger
from agentgym.task import Task, seed_of
from agentgym.trajectory import Trajectory, Turn


class ClientPolicy(Policy):
    """The program outside, as a policy. It says one message at a time."""

    name = "client"

    def __init__(self) -> None:
        self.messages: asyncio.Queue[Message | None] = asyncio.Queue()
        self.requests: asyncio.Queue[Request] = asyncio.Queue()

    async def generate(self, request: Request) -> Reply:
        """Hand the conversation out and wait for the next message. Raises: PolicyLeft once the client has left."""
        self.requests.put_nowait(request)
        if (message := await self.messages.get()) is None:
            raise PolicyLeft("The client has left.")
        return Reply(message)


class OfferedEpisode:
    """Plays one task for a program outside. Made while an event loop runs. Nothing is retried: a client cannot go back.

    Args:
        config: the config of the episode; its `environment`, where it names none, is that of the task.
        ledger: keeps the episode, whose id is the label, the task's id and `#0`.
        label: no other episode of the ledger has it.
        seed: the seed of the environment's reset; by default as any episode of the task with the seed of the config.
    Attributes:
        request: what the agent reads now and may call; None before the reset and after the end.
        trajectory: the trajectory of the episode, as far as it has come.
    Raises: CreditError for a reward that judges groups.
    """

    OVER = Result("The episode is over: no tool can be called any more.", ResultStatus.TOOL_ERROR)

    def __init__(
        self, task: Task, config: RolloutConfig, ledger: Ledger | None = None, *, label: str, seed: int | None = None
    ) -> None:
        self._policy = ClientPolicy()
        config = replace(config, concurrency=1, budgets=replace(config.budgets, infra_retries=0))
        self.trajectory = Trajectory(
            f"{label}/{task.id}#0", task, 0, seed_of(config.seed, task.id) if seed is None else seed
        )
        manager = EpisodeManager(self._policy, config, ledger=ledger, label=label)
        self._playing = asyncio.create_task(manager.play_prepared([(self.trajectory, None)], label=label))
        self._one_message = asyncio.Lock()
        self.request: Request | None = None

    @property
    def over(self) -> bool:
        return self._playing.done()

    @property
    def opening(self) -> str:
        """What opens the episode: the system's and the user's words."""
        opening = [message for message in self.trajectory.opening if message.role in ("system", "user")]
        return "\n\n".join(message.text for message in opening)

    @property
    def tools(self) -> list[Mapping[str, Any]]:
        """The tools that the agent has now: `name`, `description` and `parameters` of each."""
        return [schema["function"] for schema in (self.request.tools if self.request is not None else ())]

    async def begin(self) -> None:
        """Wait until the environment is reset. Raises: TaskError with what failed if that never happens."""
        await self._next_request()
        if self.request is None:
            raise TaskError(f"{self.trajectory.task.id} cannot be offered: {self.trajectory.error}")

    async def say(self, message: Message) -> list[Turn]:
        """Play one turn. Messages that come at once are turns one after the other.

        Returns: the turn, as it was recorded; none after the end.
        Raises: what keeps the episode from being recorded.
        """
        async with self._one_message:
            if self.request is None:
                return []
            turns = len(self.trajectory.turns)
            self._policy.messages.put_nowait(message)
            await self._next_request()
            return self.trajectory.turns[turns:]

    async def call(self, call: Call) -> Result:
        """Play a turn that is one call. Returns: its result, which says so where the episode is over."""
        turns = await self.say(Message("assistant", "", (call,)))
        return turns[0].results[0] if turns else self.OVER

    async def _next_request(self) -> None:
        """Wait for the policy's next request, or for the end. Raises: what ended the run but no episode."""
        waiting = asyncio.create_task(self._policy.requests.get())
        await asyncio.wait([waiting, self._playing], return_when=asyncio.FIRST_COMPLETED)
        self.request = waiting.result() if waiting.done() else None
        if not waiting.done():
            waiting.cancel()
            self._playing.result()

    async def close(self) -> Trajectory:
        """End the episode where it is, and judge it as it stands. Returns: its trajectory. May be called twice."""
        self._policy.messages.put_nowait(None)
        await self._playing
        self.request = None
        return self.trajectory
