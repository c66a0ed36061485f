"""One of our episodes played by an external program, which reads requests and sends the agent's messages."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from agentgym.errors import PolicyLeft, TaskError
from agentgym.messages import Call, Message, Result, ResultStatus
from agentgym.policy import Reply, Request
from agentgym.policy.contract import Policy
from agentgym.rollout.config import RolloutConfig
from agentgym.rollout.manager import EpisodeManager
from agentgym.storage.ledger import Ledger
from agentgym.task.definition import Task, seed_of
from agentgym.trajectory.record import Trajectory
from agentgym.trajectory.turn import Turn


class ClientPolicy(Policy):
    """The external program as a policy, which sends one message at a time."""

    name = "client"

    def __init__(self) -> None:
        self.messages: asyncio.Queue[Message | None] = asyncio.Queue()
        self.requests: asyncio.Queue[Request] = asyncio.Queue()

    async def generate(self, request: Request) -> Reply:
        """Expose the conversation and wait for the next message. Raises: PolicyLeft if the client has left."""
        self.requests.put_nowait(request)
        if (message := await self.messages.get()) is None:
            raise PolicyLeft("The client has closed the connection.")
        return Reply(message)


class OfferedEpisode:
    """Plays one task for an external program. Needs a running event loop. It is never retried, because a client cannot
    go back.

    Args:
        config: the config of the episode; `environment` defaults to the task's.
        ledger: stores the episode, whose id is LABEL/TASK#0.
        label: a label that no other episode of the ledger has.
        seed: the seed of the environment's reset; by default derived from the config's seed and the task's id.
    Attributes:
        request: the agent's current messages and tools; None before the reset and after the end.
        trajectory: the trajectory of the episode so far.
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
        """The opening text of the system and the user."""
        opening = [message for message in self.trajectory.opening if message.role in ("system", "user")]
        return "\n\n".join(message.text for message in opening)

    @property
    def tools(self) -> list[Mapping[str, Any]]:
        """The agent's current tools, each with `name`, `description` and `parameters`."""
        return [schema["function"] for schema in (self.request.tools if self.request is not None else ())]

    async def begin(self) -> None:
        """Wait until the environment is reset. Raises: TaskError with the failure if the reset fails."""
        await self._next_request()
        if self.request is None:
            raise TaskError(f"{self.trajectory.task.id} cannot be played: {self.trajectory.error}")

    async def say(self, message: Message) -> list[Turn]:
        """Play one turn. Concurrent messages become successive turns.

        Returns: the recorded turn in a list, which is empty after the end.
        Raises: any error that prevents recording the episode.
        """
        async with self._one_message:
            if self.request is None:
                return []
            turns = len(self.trajectory.turns)
            self._policy.messages.put_nowait(message)
            await self._next_request()
            return self.trajectory.turns[turns:]

    async def call(self, call: Call) -> Result:
        """Play a turn of one call. Returns: its result, or `OVER` after the end of the episode."""
        turns = await self.say(Message("assistant", "", (call,)))
        return turns[0].results[0] if turns else self.OVER

    async def _next_request(self) -> None:
        """Wait for the policy's next request, or for the end. Raises: any error of the run itself."""
        waiting = asyncio.create_task(self._policy.requests.get())
        await asyncio.wait([waiting, self._playing], return_when=asyncio.FIRST_COMPLETED)
        self.request = waiting.result() if waiting.done() else None
        if not waiting.done():
            waiting.cancel()
            self._playing.result()

    async def close(self) -> Trajectory:
        """End the episode and judge it as it is. Returns: its trajectory. May be called twice."""
        self._policy.messages.put_nowait(None)
        await self._playing
        self.request = None
        return self.trajectory
