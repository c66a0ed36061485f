"""A DQN agent: it predicts the value of each listed action of a state from texts, and learns from every episode shown
to it.

It writes no text and needs no language model. So it is a cheap policy for environments with enumerable actions, such
as the elements of a page or the directions of a move, and a player whose episodes others can imitate.
"""

from __future__ import annotations

import copy
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Sequence
from itertools import product
from typing import Any

import numpy as np
import torch

from agentgym import Call, Message, Policy, PolicyError, Trajectory, prototype
from agentgym.policy import Reply, Request

from .stored_turns import ReturnSpec

__all__ = ["DqnPolicy", "enumerated_calls"]

ListActions = Callable[[Sequence[Message], Sequence[dict[str, Any]]], Sequence[Call]]
"""A function from the messages so far and the tools' schemas to the calls that may be made next."""
MAX_ACTIONS = 1_000
_WORDS = re.compile(r"\w+|[^\w\s]")


def enumerated_calls(messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> list[Call]:
    """Return every call of the tools whose parameters all list their allowed values; other tools' calls are left out.

    Raises: PolicyError if there is none, or more than a thousand.
    """
    calls: list[Call] = []
    for tool in tools:
        function = tool.get("function", tool)
        properties = function.get("parameters", {}).get("properties", {})
        choices = [_allowed(schema) for schema in properties.values()]
        if all(choice is not None for choice in choices):
            values = product(*(choice for choice in choices if choice is not None))
            calls += [Call(function["name"], dict(zip(properties, row, strict=True))) for row in values]
        if len(calls) > MAX_ACTIONS:
            raise PolicyError(
                f"The tools allow more than {MAX_ACTIONS} different calls. Give DqnPolicy a function that lists the "
                "calls of a state."
            )
    if not calls:
        raise PolicyError(
            "DqnPolicy found no actions, because no tool has only parameters with a list of allowed values. Give "
            "DqnPolicy a function that lists the calls of a state."
        )
    return calls


class DqnPolicy(Policy):
    """Takes the listed action with the highest value, or with probability `epsilon` a random one.

    At temperature 0 it never explores.

    Values come from a two-layer network over the hashed words of the last message and of the call.

    Args:
        list_actions: returns the calls allowed in a state.
        epsilon: probability of a random action, drawn by the request's seed.
        gamma: discount per turn. buckets: size of the hashing space for words. hidden: the network's width.
        learning_rate: the learning rate of Adam. follow: how far the target network moves in each step.
        seed: the seed of the network and of its batches. capacity: how many turns are kept.
    Source: Mnih et al. 2015, doi:10.1038/nature14236, with a target network that moves a little in each step.
    """

    name = "dqn"

    def __init__(
        self,
        list_actions: ListActions = enumerated_calls,
        *,
        epsilon: float = 0.1,
        gamma: float = 0.99,
        buckets: int = 256,
        hidden: int = 64,
        learning_rate: float = 1e-3,
        follow: float = 0.05,
        seed: int = 0,
        capacity: int = 10_000,
    ) -> None:
        if not 0 <= epsilon <= 1 or not 0 <= gamma <= 1:
            raise PolicyError(
                f"DqnPolicy: epsilon = {epsilon} and gamma = {gamma} are not valid: both must be from 0 to 1."
            )
        self.list_actions, self.epsilon, self.gamma, self._follow = list_actions, epsilon, gamma, follow
        self._buckets, self._capacity = buckets, capacity
        self._order = np.random.default_rng(seed)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self._network = torch.nn.Sequential(
                torch.nn.Linear(2 * buckets, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, 1)
            )
        self._slow = copy.deepcopy(self._network)
        self._optimiser = torch.optim.Adam(self._network.parameters(), lr=learning_rate)
        self._turns: list[tuple[np.ndarray, float, np.ndarray]] = []

    async def generate(self, request: Request) -> Reply:
        """Choose a call. Raises: PolicyError if no action is listed."""
        calls = self.list_actions(request.messages, request.tools)
        generator = np.random.default_rng(request.sampling.seed)
        explores = request.sampling.temperature > 0 and generator.random() < self.epsilon
        values = self.values(request.messages, calls)
        chosen = int(generator.integers(len(calls))) if explores else int(values.argmax())
        return Reply(Message("assistant", "", (calls[chosen],)), policy_version=self.version)

    @torch.no_grad()
    def values(self, messages: Sequence[Message], calls: Sequence[Call]) -> np.ndarray:
        """Return the value of each of n calls after the messages, [n]. Raises: PolicyError if `calls` is empty."""
        numbers: np.ndarray = self._network(torch.from_numpy(self._features(messages, calls)))[:, 0].numpy()
        return numbers

    def observe(self, trajectories: Iterable[Trajectory], return_spec: ReturnSpec = ReturnSpec()) -> None:  # noqa: B008
        """Store the turns with exactly one call of valid episodes, of every player."""
        for trajectory in trajectories:
            if trajectory.valid:
                self._keep(trajectory, return_spec.rewards(trajectory))
        del self._turns[: -self._capacity]

    def learn(self, updates: int, batch_size: int = 64) -> float:
        """Take optimiser steps towards r + gamma max Q'(next state, call). Returns: their mean loss.

        Raises: PolicyError if no turn was observed.
        """
        if not self._turns:
            raise PolicyError("DqnPolicy has observed no turns. Give `observe` valid episodes that call tools.")
        losses = []
        for _ in range(updates):
            drawn = [self._turns[i] for i in self._order.integers(len(self._turns), size=batch_size)]
            states, rewards, following = zip(*drawn, strict=True)
            with torch.no_grad():
                counts = [len(rows) for rows in following]
                values = self._slow(torch.from_numpy(np.concatenate(following)))[:, 0].split(counts)
                after = [float(row.max()) if len(row) else 0.0 for row in values]
            targets = torch.tensor(np.array(rewards) + self.gamma * np.array(after), dtype=torch.float32)
            loss = ((self._network(torch.from_numpy(np.stack(states)))[:, 0] - targets) ** 2).mean()
            self._optimiser.zero_grad()
            loss.backward()
            self._optimiser.step()
            self._move_copy()
            losses.append(float(loss.detach()))
        self.version += 1
        return float(np.mean(losses))

    @torch.no_grad()
    def _move_copy(self) -> None:
        for slow, fast in zip(self._slow.parameters(), self._network.parameters(), strict=True):
            slow.lerp_(fast, self._follow)

    def _keep(self, trajectory: Trajectory, rewards: np.ndarray) -> None:
        tools = trajectory.tools
        if tools is None:
            tools = [tool.schema() for tool in prototype(trajectory.task.environment).tools.values()]
        trajectory.require_one_row("DQN")
        messages = list(trajectory.opening)
        for turn, reward in zip(trajectory.turns, rewards, strict=True):
            calls = [call for call in turn.message.calls if call.error is None]
            state = self._features(messages, calls[:1])[0] if calls else None
            messages += [turn.message, *turn.observation()]
            is_over = turn is trajectory.turns[-1] and not (trajectory.stop_reason and trajectory.stop_reason.truncated)
            following = np.zeros((0, 2 * self._buckets), np.float32)
            if not is_over:
                following = self._features(messages, self.list_actions(messages, tools))
            if state is not None:
                self._turns.append((state, float(reward), following))

    def _features(self, messages: Sequence[Message], calls: Sequence[Call]) -> np.ndarray:
        if not calls:
            raise PolicyError("DqnPolicy: no action is listed for this state. List at least one, such as an answer.")
        state = self._hashed(messages[-1].text if messages else "")
        texts = [f"{call.name} {json.dumps(call.arguments, sort_keys=True)}" for call in calls]
        return np.stack([np.concatenate([state, self._hashed(text)]) for text in texts]).astype(np.float32)

    def _hashed(self, text: str) -> np.ndarray:
        counts = np.zeros(self._buckets)
        for word in _WORDS.findall(text):
            counts[int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest()) % self._buckets] += 1
        scaled: np.ndarray = counts / max(np.sqrt((counts**2).sum()), 1.0)
        return scaled


def _allowed(schema: dict[str, Any]) -> list[Any] | None:
    if "enum" in schema:
        return list(schema["enum"])
    if "const" in schema:
        return [schema["const"]]
    return [False, True] if schema.get("type") == "boolean" else None
