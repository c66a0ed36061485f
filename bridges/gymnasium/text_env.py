"""Our environments as Gymnasium environments: actions are agent messages as text, observations what the agent reads."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np

from agentgym import (
    AgentGymError,
    BackendUser,
    Budgets,
    EpisodeManager,
    Message,
    Policy,
    Reward,
    RolloutConfig,
    Task,
    Trajectory,
    load,
    load_task_set,
    seed_of,
)
from agentgym.policy import CallFormat, Reply, Request, formats

from .any_text import MAX_CHARS, AnyText


class TextEnv(gymnasium.Env[str, str]):
    """Our tasks behind Gymnasium's interface, with the budgets, retries and rewards of the episode loop.

    An action is an agent message in a call format; an observation is the reply. The reward of a step is the turn's
    reward; the last step adds the outcome's. `info` holds `task`, and at the end `outcome` and `stop_reason`.
    An infrastructure failure raises an error. The env has its own event loop, so it cannot be used inside another one.

    Args:
        tasks: the tasks, or a text such as "text/sokoban-v1:train". A reset draws one with the seed;
            `options={"task": 3}` chooses one.
        call_format: registered name of the call format. `reward`, `budgets`: as for EpisodeManager.
    """

    metadata = {"render_modes": ["ansi"], "render_fps": 1}
    _episode: Trajectory

    def __init__(
        self,
        tasks: Sequence[Task] | str,
        *,
        call_format: str = "hermes",
        reward: Reward | str | None = None,
        budgets: Budgets | None = None,
        render_mode: str | None = None,
    ) -> None:
        if isinstance(tasks, str):
            name, _, split = tasks.partition(":")
            tasks = load_task_set(name)[split or "train"]
        if not len(tasks):
            raise ValueError("TextEnv needs at least one task.")
        self.tasks, self.render_mode = tasks, render_mode
        self.observation_space, self.action_space = AnyText(), AnyText()
        self._format: CallFormat = load("call_formats", call_format)()
        self._config = RolloutConfig(reward=reward, budgets=budgets or Budgets(), concurrency=1)
        self._runner = asyncio.Runner()
        self._backends = BackendUser()
        self._playing: asyncio.Task[list[Trajectory]] | None = None
        self._agent, self._observation_text = _Agent(), ""
        self._read = 0  # number of the request's messages already shown

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Begin an episode. Returns: the opening messages with instructions for calls, and `info` with the task."""
        super().reset(seed=seed)
        chosen = (options or {}).get("task")
        task = self.tasks[int(self.np_random.integers(len(self.tasks)) if chosen is None else chosen)]
        self._runner.run(self._stop())
        self._agent, self._read = _Agent(), 0
        self._episode = Trajectory(f"gymnasium/{task.id}", task, seed=seed_of("gymnasium", task.id))
        manager = EpisodeManager(self._agent, self._config, label="gymnasium")
        playing = manager.play_prepared([(self._episode, None)], label="gymnasium")
        self._playing = self._runner.get_loop().create_task(playing)
        self._wait()
        request = self._agent.request
        if request is None:
            raise AgentGymError(
                f"{task.id} ended before its agent was asked for a message: {self._episode.stop_reason}."
            )
        self._read = len(request.messages)
        self._observation_text = f"{_text(request.messages)}\n{self._format.explain(request.tools)}"[:MAX_CHARS]
        return self._observation_text, {"task": task.id}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Act as the agent. Raises: AgentGymError before reset, after the end, or on infrastructure failure."""
        if self._playing is None or self._playing.done():
            raise AgentGymError(
                "TextEnv.step was called before reset, or after the end of the episode. Call reset first."
            )
        request = self._agent.request
        text, calls = formats.parse_message(self._format, action, request.tools if request else ())
        self._agent.say(Message("assistant", text, calls))
        self._wait()
        episode, info = self._episode, {"task": self._episode.task.id}
        rewards = episode.turn_rewards()[-1:]
        earned = float(np.nansum(rewards))
        if not self._playing.done():
            messages = self._agent.request.messages if self._agent.request else ()
            self._observation_text = _text(messages[self._read + 1 :])[:MAX_CHARS]  # after the agent's own message
            self._read = len(messages)
            return self._observation_text, earned, False, False, info
        last = episode.turns[-1] if episode.turns else None
        messages = last.observation() if last else []
        self._observation_text = _text(messages)[:MAX_CHARS]
        reason = episode.stop_reason
        ended = {**info, "outcome": dict(episode.outcome), "stop_reason": str(reason)}
        over = (reason is not None and reason.terminated, reason is not None and reason.truncated)
        return self._observation_text, earned + episode.outcome_reward, *over, ended

    def render(self) -> str | None:
        """Return the last observation."""
        return self._observation_text if self.render_mode == "ansi" else None

    def close(self) -> None:
        """End the episode and its sandboxes."""
        if self._playing is not None:
            self._runner.run(self._stop())
            self._runner.run(self._backends.close())
        self._runner.close()

    def _wait(self) -> None:
        """Wait until the agent is asked or the episode is over. Raises: AgentGymError on infrastructure failure."""
        playing = self._playing
        assert playing is not None
        self._runner.run(self._until_asked(playing))
        if playing.done():
            error = playing.exception() or self._episode.error
            if error is not None:
                raise AgentGymError(f"The episode of {self._episode.task.id} failed: {error}")

    async def _until_asked(self, playing: asyncio.Task[list[Trajectory]]) -> None:
        waiting = asyncio.ensure_future(self._agent.turn.wait())
        await asyncio.wait({waiting, playing}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()

    async def _stop(self) -> None:
        playing, self._playing = self._playing, None
        if playing is not None:
            playing.cancel()
            await asyncio.gather(playing, return_exceptions=True)


class _Agent(Policy):
    """Exposes every request and waits for `say` to answer it."""

    name = "gymnasium"

    def __init__(self) -> None:
        self.request: Request | None = None
        self.turn = asyncio.Event()
        self._answer: asyncio.Future[Message] | None = None

    async def generate(self, request: Request) -> Reply:
        self.request, self._answer = request, asyncio.get_running_loop().create_future()
        self.turn.set()
        return Reply(await self._answer)

    def say(self, message: Message) -> None:
        assert self._answer is not None
        self.turn.clear()
        self._answer.set_result(message)


def _text(messages: Sequence[Message]) -> str:
    return "\n".join(message.text for message in messages)
