"""The optimal values of A*-PO are exact where the reference plays every path of a problem as often as it is likely."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from problem_episodes import BEHAVIOUR, EPISODES, Names, episodes

from agentgym import Task, Trajectory
from agentgym.methods.objectives.apo import OptimalValues
from agentgym.training import Rollouts


class Recorded(Rollouts):
    """Hands out every path of a problem as often as it is likely."""

    def __init__(self, recorded: list[Trajectory]) -> None:
        super().__init__()
        self._recorded, self.plays = recorded, 0

    def play(self, policy: Any, tasks: Sequence[Task], *, group_size: int, **_: Any) -> list[Trajectory]:
        assert group_size == len(self._recorded)
        self.plays += 1
        return self._recorded * len(tasks)


@pytest.mark.parametrize("name", BEHAVIOUR)
def test_the_value_that_is_kept_is_that_of_all_paths(name: str, tmp_path: Path):
    """beta log sum of p exp(R / beta) over every path, kept in the file and not estimated a second time."""
    problem, beta, file = BEHAVIOUR[name], 0.5, tmp_path / "values.json"
    rollouts = Recorded(episodes(problem, EPISODES[name], Names()))
    values = OptimalValues(episodes=EPISODES[name], temperature=beta)
    values.read_values(file)
    exact = beta * math.log(sum(p.probability * math.exp(p.return_from(0) / beta) for p in problem.paths))
    task = Task("t", "test/none-v1", "question")
    assert values.estimate([task, task], rollouts) == [pytest.approx(exact, abs=1e-12)] * 2
    reopened = OptimalValues(episodes=EPISODES[name], temperature=beta)
    reopened.read_values(file)
    assert reopened.estimate([task], rollouts) == [json.loads(file.read_text())["t"]]
    assert rollouts.plays == 1
