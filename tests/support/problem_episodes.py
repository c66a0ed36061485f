"""The small decision problems of agentgym.testing.exact as recorded episodes, and a model that is a table."""

from __future__ import annotations

import math
from collections import defaultdict
from types import SimpleNamespace

import torch

from agentgym import Task, Trajectory, Turn
from agentgym.messages import Message, StopReason
from agentgym.testing.exact.problems import Problem, ProblemPath, back_and_forth, flip, lucky_tool, stop_or_go
from agentgym.testing.exact.signals import with_exact_signals

TARGET = {
    "flip": flip(),
    "stop_or_go": stop_or_go(),
    "lucky_tool": lucky_tool(),
    "back_and_forth": back_and_forth(),
}
"""The problems under the policy whose values are sought."""
BEHAVIOUR = {
    "flip": flip(),
    "stop_or_go": stop_or_go(go=(0.5, 0.5, 0.5)),
    "lucky_tool": lucky_tool(go=(0.5, 0.4)),
    "back_and_forth": back_and_forth(go=(0.5, 0.5)),
}
"""The same worlds under another policy."""
PROMPT = 1
ACTIONS = {"go": 2, "search": 3, "answer": 4, "stop": 5}


class Names:
    """Numbers for texts, from 10 on."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        return self._numbers.setdefault(text, 10 + len(self._numbers))


def action_chances(problem: Problem) -> dict[tuple[int, str, str], float]:
    """Under the problem's policy, the probability of each action, by turn and state."""
    chance: defaultdict[tuple, float] = defaultdict(float)
    for path in problem.paths:
        for k, (state, action) in enumerate(path.steps):
            chance[k, state, action] += path.probability
            chance[k, state] += path.probability
    return {key: value / chance[key[:2]] for key, value in chance.items() if len(key) == 3}


def trajectory_of(path: ProblemPath, name: str, names: Names, chances: dict, version: int = 0) -> Trajectory:
    """An episode along a path: each turn is one token, the action, and each observation names the state after it."""
    turns = []
    for k, (state, action) in enumerate(path.steps):
        following = [names(f"{k} {path.steps[k + 1][0]}")] if k + 1 < len(path.steps) else []
        turn = Turn(k, Message("assistant", action), token_ids=[ACTIONS[action]], observation_ids=following)
        turn.logprobs, turn.policy_version = [math.log(chances[k, state, action])], version
        if not math.isnan(path.rewards[k]):
            turn.rewards = {"pay": path.rewards[k]}
        turns.append(turn)
    return Trajectory(
        name,
        Task("t", "test/none-v1", "question"),
        prompt_ids=[PROMPT],
        turns=turns,
        outcome={"success": path.outcome},
        stop_reason=StopReason.ANSWERED,
    )


def episodes(problem: Problem, count: int, names: Names) -> list[Trajectory]:
    """`count` episodes in which every path is exactly as frequent as it is likely."""
    chances, recorded = action_chances(problem), []
    for number, path in enumerate(problem.paths):
        times = path.probability * count
        assert abs(times - round(times)) < 1e-6, (path.probability, count)
        recorded += [trajectory_of(path, f"e{number}-{i}", names, chances) for i in range(round(times))]
    assert len(recorded) == count
    return recorded


EPISODES = {"flip": 20, "stop_or_go": 80, "lucky_tool": 500, "back_and_forth": 320}
"""Of each problem, as many as make every path exactly as frequent as it is likely."""


def exact(problem: Problem) -> Problem:
    """The problem with exact values and action values."""
    return with_exact_signals(problem)


class PrefixTable(torch.nn.Module):
    """In place of a transformer: after each token, a vector that belongs to the tokens up to it and to no others."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size, self._rows = size, dict[tuple[int, ...], int]()
        self._known: dict[tuple[int, ...], list[int]] = {}

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor, **_: object) -> SimpleNamespace:
        rows = [self._numbers(tuple(ids)) for ids in input_ids.tolist()]
        states = torch.nn.functional.one_hot(torch.tensor(rows), self.size).float()
        return SimpleNamespace(last_hidden_state=states)

    def _numbers(self, ids: tuple[int, ...]) -> list[int]:
        if ids not in self._known:
            ends = range(1, len(ids) + 1)
            self._known[ids] = [self._rows.setdefault(ids[:end], len(self._rows)) for end in ends]
        return self._known[ids]

    def __deepcopy__(self, memo: dict) -> PrefixTable:
        copied = PrefixTable(self.size)
        copied._rows, copied._known = self._rows, self._known  # all copies name prefixes alike
        return copied


class TableModel(torch.nn.Module):
    """A causal language model, as far as critics ask for one."""

    def __init__(self, size: int = 64) -> None:
        super().__init__()
        self.unused = torch.nn.Parameter(torch.zeros(1))  # where it is, its critics are
        self.base_model, self.config = PrefixTable(size), SimpleNamespace(hidden_size=size)
