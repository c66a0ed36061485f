"""Monte Carlo tree search: with exact values it finds the best first action, also where chance answers."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Hashable, Sequence

import pytest
from wanderers import Wanderer, manager_of, rooms, searched

from agentgym import Checkpoint, Environment, Policy, Task, tool
from agentgym.messages import Call, Message
from agentgym.methods.search import Node, SearchTree, TreeSearch
from agentgym.methods.search.mcts import Action, Outcome
from agentgym.policy import Reply, Request
from agentgym.testing.exact.problems import Problem, ProblemPath
from agentgym.testing.exact.signals import PROBLEMS, after


def remaining(problem: Problem, history: Hashable, turns: int) -> list[ProblemPath]:
    """The trajectories that are possible after some turns."""
    return [path for path in problem.paths if len(path.steps) >= turns and known(path, turns) == history]


def known(path: ProblemPath, turns: int) -> str:
    return repr(after(path, turns - 1)) if turns else ""


def best_values(problem: Problem) -> dict[tuple[str, int], float]:
    """By what is known after so many turns, the return of the unbroken episode if the best actions follow."""
    values: dict[tuple[str, int], float] = {}

    def value_after(history: str, turns: int) -> float:
        paths = remaining(problem, history, turns)
        total = sum(path.probability for path in paths)
        if all(len(path.steps) == turns for path in paths):
            best = sum(path.probability * path.return_from(0) for path in paths) / total
        else:
            best = max(action_values(problem, history, turns, value_after).values())
        values[history, turns] = best
        return best

    value_after("", 0)
    return values


def action_values(problem: Problem, history: str, turns: int, value_after) -> dict[str, float]:
    """The expected return after each action, over what chance answers."""
    chances: defaultdict[str, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
    for path in remaining(problem, history, turns):
        chances[path.steps[turns][1]][known(path, turns + 1)] += path.probability
    return {
        action: sum(p * value_after(after_it, turns + 1) for after_it, p in outcomes.items()) / sum(outcomes.values())
        for action, outcomes in chances.items()
    }


class InProblem(Environment):
    """Plays a problem of `agentgym.testing.exact`; what chance does is drawn anew each time, also after a restore."""

    def __init__(self, problem: Problem, chance: random.Random) -> None:
        self._problem, self._chance = problem, chance
        self._turns, self._history = 0, ""

    @tool(inline=True)
    def act(self, action: str) -> str:
        """Do it."""
        paths = [p for p in remaining(self._problem, self._history, self._turns) if p.steps[self._turns][1] == action]
        path = self._chance.choices(paths, [path.probability for path in paths])[0]
        self._turns += 1
        self._history = known(path, self._turns)
        if len(path.steps) == self._turns:
            self.end_episode()
        return self._history

    async def state_key(self) -> str | None:
        return self._history

    async def checkpoint(self) -> Checkpoint | None:
        return Checkpoint({"turns": self._turns, "history": self._history})

    async def restore(self, task: Task, checkpoint: Checkpoint, *, seed: int) -> None:
        self._turns, self._history = checkpoint.data["turns"], checkpoint.data["history"]


class AnyAction(Policy):
    """Does what is possible, each equally often."""

    name = "any action"

    def __init__(self, problem: Problem) -> None:
        self._problem = problem

    async def generate(self, request: Request) -> Reply:
        history = next((m.text for m in reversed(request.messages) if m.role == "tool"), "")
        paths = remaining(self._problem, history, request.turn)
        action = random.Random(request.sampling.seed).choice(sorted({path.steps[request.turn][1] for path in paths}))
        return Reply(Message("assistant", "", (Call("act", {"action": action}),)))


class Exact:
    """The exact return of the unbroken episode after each node, if the best actions follow."""

    reads_outcome = False

    def __init__(self, problem: Problem) -> None:
        self._values = best_values(problem)

    async def __call__(self, tree: SearchTree, nodes: Sequence[Node]) -> list[float | None]:
        return [self._values[node.turn.results[0].content, node.depth] for node in nodes]


@pytest.mark.parametrize("rule", ["puct", "uct"])
@pytest.mark.parametrize("name", PROBLEMS)
async def test_with_exact_values_the_best_first_action_is_visited_most(name, rule):
    problem = PROBLEMS[name]
    best = action_values(problem, "", 0, lambda history, turns: best_values(problem)[history, turns])
    low, high = sorted(best.values())
    assert high - low > 0.03, "the problem has a best first action"
    chance = random.Random(0)
    manager = manager_of(AnyAction(problem), environment=lambda: InProblem(problem, chance), temperature=1.0)
    search = TreeSearch(nodes=1200, candidates=48, value=Exact(problem), rule=rule, exploration=0.5)
    tree = SearchTree(manager, Task("t", "test/problem-v1", "?"), 0, search, label="exact", judged=False)
    node = await search.choose(tree)
    chosen = node.path()[1].turn.calls[0].arguments["action"]
    assert chosen == max(best, key=best.__getitem__), best
    assert tree.cost.nodes <= 1200


def test_an_action_is_worth_the_mean_over_its_outcomes_as_often_as_they_came_out_however_they_were_visited():
    """0.25 * 0.8 + 0.75 * 0.4 = 0.5, and visits of an outcome change its own mean alone."""
    rare, common = Outcome(Node(), times=1), Outcome(Node(), times=3)
    rare.add([0.8] * 9)
    common.add([0.4] * 12)
    action = Action({"rare": rare, "common": common})
    assert action.mean == pytest.approx(0.5)
    assert action.next_outcome() is common, "12 visits for 3 times, and the other has 9 for 1"


def action_with(times: int, visits: int, mean: float) -> Action:
    outcome = Outcome(Node(), times=times)
    outcome.add([mean] * visits)
    return Action({"": outcome})


def test_puct_prefers_what_the_policy_does_often_and_uct_what_was_tried_least():
    """8 moves, 6 of them `often` and 2 `rarely`; visits 6 and 3, means 0.5 both, scaled to the tree's 0 to 1.

    PUCT with exploration 1: 0.5 + 6/8 * sqrt(9)/7 = 0.821 against 0.5 + 2/8 * sqrt(9)/4 = 0.688.
    UCT: 0.5 + sqrt(ln 9 / 6) = 1.105 against 0.5 + sqrt(ln 9 / 3) = 1.356.
    """
    actions = {"rarely": action_with(2, 3, 0.5), "often": action_with(6, 6, 0.5)}
    assert TreeSearch(nodes=1, rule="puct", exploration=1.0)._chosen(actions, 0.0, 1.0) is actions["often"]
    assert TreeSearch(nodes=1, rule="uct", exploration=1.0)._chosen(actions, 0.0, 1.0) is actions["rarely"]
    alike = {"visited": action_with(1, 6, 0.5), "new": action_with(1, 3, 0.5)}
    for rule in ("puct", "uct"):
        assert TreeSearch(nodes=1, rule=rule, exploration=1.0)._chosen(alike, 0.0, 1.0) is alike["new"]


async def test_rooms_are_solved_by_visits_and_by_the_best_end():
    for search in (
        TreeSearch(nodes=300, candidates=8, take="best", exploration=0.3),
        TreeSearch(nodes=300, candidates=8, exploration=0.3),
    ):
        episodes = await searched(manager_of(Wanderer()), rooms(4), search)
        assert sum(each.trajectory.success for each in episodes) >= 3
        labels = [node.value for each in episodes for node in each.tree.root.descendants()]
        assert all(0 <= value <= 1 and math.isfinite(value) for value in labels)
        assert max(copies := [values for each in episodes for values in values_of_copies(each.tree)], key=len)[1:]
        assert all(len(set(values)) == 1 for values in copies)


def values_of_copies(tree: SearchTree) -> list[list[float]]:
    """Of the nodes that one action led to, and that have one state."""
    values = defaultdict(list)
    for node in tree.root.descendants():
        values[node.parent, str(node.turn.message.calls[0].arguments), node.key].append(node.value)
    return list(values.values())
