"""Arms of benchmarks/objectives.py that are stages: they play as many training episodes as the other arms, at most."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

ROUNDS = 3
GROUP = 8
BRANCHES = 4
Stages = list[dict[str, Any]]


def arm_stages(name: str, episodes: int, ranking: str) -> Stages:
    """Return the stages of an arm, between a measurement `before` and one `after`.

    Args:
        episodes: the number of episodes that it may play for training.
        ranking: the estimator that says at which turn an episode went wrong.
    """
    before, after = ({"kind": "evaluate", "name": when} for when in ("before", "after"))
    stages = STAGE_ARMS[name](episodes, ranking)
    return [before, *stages, *([] if stages[-1].get("name") == "after" else [after])]


def _rounds(learn: dict[str, Any], *, group: int = GROUP, plays_beside: int = 0, trees: bool = False) -> Any:
    """Return three rounds of `collect` and a stage that learns from its episodes.

    Args:
        plays_beside: the number of episodes that the stage itself may play for each collected episode.
    """

    def stages(episodes: int, ranking: str) -> Stages:
        tasks = max(episodes // (ROUNDS * group * (1 + plays_beside)), 1)
        collect = {"kind": "collect", "options": {"tasks": tasks, "group_size": group, "trees": trees}}
        options = {"episodes": ["collect"], **learn["options"]}
        if options.get("pairs") == "segment":
            options["ranking"] = ranking
        return [{"kind": "repeat", "options": {"times": ROUNDS, "stages": [collect, {**learn, "options": options}]}}]

    return stages


def _imitate(select: str, rounds: Callable[[dict[str, Any]], Any] = _rounds) -> Any:
    options = {"select": select, "steps": 60, "learning_rate": 5e-4, "batch_size": 16, "validate_every": 1000}
    return rounds({"kind": "imitate", "name": "learn", "options": options})


def _prefer(*, imitation_weight: float = 0.0, plays_beside: int = 0, trees: bool = False, **options: Any) -> Any:
    chosen = {"steps": 20, "batch_size": 16, "learning_rate": 2e-4, "imitation_weight": imitation_weight, **options}
    group = 1 if plays_beside else GROUP
    learn = {"kind": "prefer", "name": "learn", "options": chosen}
    return _rounds(learn, group=group, plays_beside=plays_beside, trees=trees)


def _stored(learn: dict[str, Any], *after: dict[str, Any]) -> Any:
    """Return one collection, and a stage that plays nothing."""

    def stages(episodes: int, ranking: str) -> Stages:
        collect = {"kind": "collect", "options": {"tasks": max(episodes // (2 * GROUP), 1), "group_size": 2 * GROUP}}
        return [collect, {**learn, "options": {"episodes": ["collect"], **learn["options"]}}, *after]

    return stages


def _guided(scale: float) -> dict[str, Any]:
    options = {"values": "learn", "scale": scale, "candidates": 8}
    return {"kind": "evaluate_guided", "name": "after", "options": options}


def _reranked(values: str) -> dict[str, Any]:
    return {"kind": "evaluate_reranked", "name": "after", "options": {"values": values, "episodes": 4}}


def _searched(learn: dict[str, Any]) -> Any:
    """Return three rounds of a search, with the number of messages for a task that episodes of four turns have."""

    def stages(episodes: int, ranking: str) -> Stages:
        messages = 4 * GROUP
        search = f"mcts(nodes={messages}, calls={messages}, value='rollouts')"
        collect = {"kind": "collect", "options": {"tasks": max(episodes // (ROUNDS * GROUP), 1), "search": search}}
        options = {"episodes": ["collect"], **learn["options"]}
        return [{"kind": "repeat", "options": {"times": ROUNDS, "stages": [collect, {**learn, "options": options}]}}]

    return stages


def _step_tasks(episodes: int, ranking: str) -> Stages:
    practice = {"tasks_of": "step_tasks", "estimator": "grpo"}
    return [{"kind": "step_tasks", "options": {"max_tasks": 400}}, {"kind": "reinforce", "options": practice}]


def _generate(episodes: int, ranking: str) -> Stages:
    """Return stages with half of the episodes before generating tasks, and half after.

    The new tasks are similar to the weak tasks of the set, and are added to the set's tasks."""
    tasks = max(1, min(2 * GROUP, episodes // (2 * GROUP)))
    steps = max(1, episodes // (2 * tasks * GROUP))
    practice = {"estimator": "grpo", "steps": steps, "tasks_per_step": tasks, "group_size": GROUP}
    return [
        {"kind": "reinforce", "name": "first", "options": practice},
        {"kind": "generate", "options": {"episodes": ["first"], "tasks": 100}},
        {"kind": "reinforce", "name": "second", "options": practice | {"tasks_of": "generate"}},
    ]


STAGE_ARMS: Mapping[str, Callable[[int, str], Stages]] = {
    "imitate_successes": _imitate("success"),
    "imitate_best": _imitate("best_of(n=1)"),
    "imitate_weighted": _imitate("weighted(temperature=0.5)"),
    "search": _imitate("success", _searched),
    "dpo": _prefer(imitation_weight=1.0),
    "dmpo": _prefer(imitation_weight=1.0, loss="dmpo"),
    "kto": _prefer(imitation_weight=1.0, loss="kto"),
    "turn_dpo": _prefer(pairs="turn", trees=True),
    "sdpo": _prefer(imitation_weight=1.0, pairs="segment", plays_beside=BRANCHES, branches=BRANCHES, segment_turns=2),
    "rank": _rounds({"kind": "rank", "name": "learn", "options": {"steps": 20, "learning_rate": 2e-4}}),
    "step_tasks": _step_tasks,
    "generate": _generate,
    "direct_advantage": _stored(
        {"kind": "direct_advantage", "name": "learn", "options": {"loss": "quadratic", "beta": 0.2, "epochs": 2}}
    ),
    "outcome_head": _stored({"kind": "outcome_head", "name": "learn", "options": {"bins": 2}}, _guided(4.0)),
    "implicit_q": _stored({"kind": "implicit_q", "name": "learn", "options": {}}, _guided(1.0)),
    "conservative_q": _stored({"kind": "conservative_q", "name": "learn", "options": {}}, _reranked("learn")),
}
"""By name, a function from the number of episodes and the ranking estimator to the stages of an arm."""


def kinds_of(stages: Sequence[Mapping[str, Any]]) -> set[str]:
    """Return the kinds of these stages, including the stages inside blocks."""
    blocks = [stage["options"]["stages"] for stage in stages if stage["kind"] == "repeat"]
    return {stage["kind"] for stage in stages}.union(*(kinds_of(block) for block in blocks))
