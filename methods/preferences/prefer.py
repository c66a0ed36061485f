"""Preferences: the policy learns which of two episodes, turns or segments is better, relative to a reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from agentgym import CreditError, RecipeError, TaskSet, Trajectory, UnknownNameError
from agentgym.credit import Estimator, credit_of, estimator
from agentgym.rollout import Fork
from agentgym.text import counted
from agentgym.training.stages import Learner, PlannedStage, RowGroup, RunContext, ScoredRow, define_stage

from ..selections import score_of
from .comparing import COMPARED, LAST_ROUND, check_compares, check_learner, check_whole_distribution
from .losses import KtoLoss, PairLoss, dmpo_weights
from .options import PreferSection
from .pairs import Pair, node_pairs, outcome_pairs, segment_pairs, turn_pairs, worst_turns

Rows = list[dict[str, Any]]
"""Rows of a manifest."""
LEARNT = frozenset({"values", "action_values", "token_values", "contributions"})
"""Signals of models that must first be fitted to returns."""


def ranking_of(options: PreferSection, where: str) -> Estimator:
    """Return the estimator that ranks turns.

    Raises: RecipeError for an unknown name, an estimator whose critic the stage does not fit, or an unused critic.
    """
    try:
        ranking = estimator(options.ranking)
    except (UnknownNameError, CreditError) as error:
        raise RecipeError(f"{where}: ranking = {options.ranking!r} cannot be used. {error}") from error
    learnt = sorted(LEARNT & set(ranking.requires))
    if learnt and options.critic_epochs is None:
        raise RecipeError(
            f"{where}: ranking = {options.ranking!r} requires a critic ({', '.join(learnt)}), but the stage trains "
            "none. Set critic_epochs, or choose a ranking without a critic, such as return_to_go or vine."
        )
    if not learnt and options.critic_epochs is not None:
        raise RecipeError(
            f"{where}: critic_epochs = {options.critic_epochs} has no effect, because ranking = {options.ranking!r} "
            "uses no critic. Leave it out, or choose a ranking with a critic, such as turn_gae or sweet_rl."
        )
    return ranking


def turn_credit(
    context: RunContext, learner: Learner, trajectories: Sequence[Trajectory], options: PreferSection
) -> list[np.ndarray]:
    """Return [T] credit of each trajectory's turns, its task's episodes being the group.

    First fits the critic, if there is one.
    """
    ranking = ranking_of(options, context.stage)
    providers = context.signal_providers(learner, ranking)
    for _ in range(options.critic_epochs or 0):
        for provider in providers:
            provider.update(trajectories)
    by_task: dict[str, list[int]] = {}
    for index, trajectory in enumerate(trajectories):
        by_task.setdefault(trajectory.task.id, []).append(index)
    credit: list[np.ndarray] = [np.zeros(0)] * len(trajectories)
    for size in sorted({len(indices) for indices in by_task.values()}):
        batch = [index for indices in by_task.values() if len(indices) == size for index in indices]
        group = [trajectories[index] for index in batch]
        signals = {name: rows for provider in providers for name, rows in provider.signals(group, 0).items()}
        advantages = credit_of(group, ranking, group_size=size, signals=signals, train_version=0)
        for index, values in zip(batch, advantages, strict=True):
            credit[index] = values
    return credit


LABELLED_BY = ("score", "desirable_from")
"""Options that decide which episodes are good."""
PAIRED_BY = (
    "pairs",
    "score",
    "margin",
    "max_pairs",
    "max_length_ratio",
    "truncated_winners",
    "ranking",
    "critic_epochs",
    "branches",
    "segment_turns",
)
"""Options that decide which pairs are compared."""


def _check(stage: PlannedStage, earlier: Sequence[PlannedStage]) -> None:
    options: PreferSection = stage.section
    if options.pairs == "nodes":
        _check_searches(stage, earlier)
    elif options.loss != "kto" and options.pairs != "segment":
        check_compares(stage, earlier)
    if options.pairs in ("turn", "segment"):
        ranking_of(options, f"[[stage]] {stage.name!r}")
    trained = [planned.name for planned in earlier if planned.stage.checkpoint is not None]
    if options.reference != LAST_ROUND and options.reference not in trained:
        raise RecipeError(
            f"[[stage]] {stage.name!r}: reference = {options.reference!r} is neither 'last_round' nor an earlier stage "
            f"that trains. Such stages: {', '.join(trained) or 'none'}."
        )


def _check_searches(stage: PlannedStage, earlier: Sequence[PlannedStage]) -> None:
    """Raise RecipeError if a stage whose nodes are compared does not search, or if the recipe has a logit hook."""
    check_whole_distribution(stage)
    plain = [player.name for player in stage.players(earlier) if not getattr(player.section, "search", "")]
    if plain:
        raise RecipeError(
            f"[[stage]] {stage.name!r} compares the nodes of searches, but {plain[0]!r} does not search. Give that "
            "stage `collect` a search, such as search = \"mcts(nodes=32, value='rollouts')\", or choose other pairs."
        )


def _check_episodes(stage: PlannedStage, task_set: TaskSet, trajectories: list[Trajectory]) -> None:
    """Raise RecipeError if no two of these episodes can be a pair (lengths are not checked), or for `kto` if all have
    the same label.
    """
    name, options = stage.name, stage.section
    if options.loss == "kto":
        _labelled(name, trajectories, options)
    elif options.pairs == "outcome":
        of_any_length = options.model_copy(update={"max_length_ratio": None})
        _require_pairs(name, outcome_pairs(trajectories, of_any_length), trajectories, options)


@define_stage(options=PreferSection, checkpoint=COMPARED, check=_check, check_episodes=_check_episodes)
def prefer_stage(context: RunContext, learner: Learner, options: PreferSection) -> Learner:
    """Learns which episodes, turns or segments are better: DPO, DMPO, SDPO, KTO."""
    check_learner(context, learner)
    chosen, episodes = context.processes.share(lambda: _chosen(context, learner, options))
    if options.loss == "kto":
        weights = options.desirable_weight, undesirable_weight(chosen, options)
        loss: Any = KtoLoss(options.beta, *weights, options.imitation_weight)
        groups = _labelled_groups(chosen, episodes)
    else:
        loss, groups = PairLoss(options.beta, options.imitation_weight), _pair_groups(chosen, episodes, options)
    rows = [row for rows, _ in groups for row in rows]
    reference = "" if options.reference == LAST_ROUND else options.reference
    scores = iter(RowGroup.score(context, learner, rows, options.microbatch_tokens, stage=reference))
    compared = [RowGroup(rows, [next(scores) for _ in rows], values) for rows, values in groups]
    return RowGroup.train(context, learner, compared, loss, options, checkpoint=COMPARED)


def _chosen(context: RunContext, learner: Learner, options: PreferSection) -> tuple[Rows, dict[str, Trajectory]]:
    """Return rows of pairs or labelled episodes, and their episodes by id. Raises: RecipeError if there are none."""

    def choose(trajectories: list[Trajectory]) -> tuple[Rows, list[Trajectory]]:
        if options.loss == "kto":
            return _labelled(context.stage, trajectories, options)
        pairs = _pairs(context, learner, trajectories, options)
        _require_pairs(context.stage, pairs, trajectories, options)
        rows = [
            {
                "chosen": pair.chosen.id,
                "rejected": pair.rejected.id,
                "chosen_turns": pair.chosen_turns,
                "rejected_turns": pair.rejected_turns,
                "gap": pair.gap,
            }
            for pair in pairs
        ]
        return rows, [trajectory for pair in pairs for trajectory in (pair.chosen, pair.rejected)]

    recorded = options.model_dump(include={"loss", *(LABELLED_BY if options.loss == "kto" else PAIRED_BY)})
    chosen = context.stored_episodes.choose(learner.renderer, options, choose, options=recorded)
    return chosen.rows, chosen.episodes


def _require_pairs(
    stage: str, pairs: Sequence[Pair], trajectories: Sequence[Trajectory], options: PreferSection
) -> None:
    if not pairs:
        raise RecipeError(
            f"The stage {stage!r} found no pair among {counted(len(trajectories), 'episode')}, because no "
            f"two episodes of a task differ by more than margin = {options.margin}. Collect more episodes of each "
            "task, or lower margin."
        )


def _pairs(
    context: RunContext, learner: Learner, trajectories: Sequence[Trajectory], options: PreferSection
) -> list[Pair]:
    if options.pairs == "outcome":
        return outcome_pairs(trajectories, options)
    if options.pairs == "nodes":
        return node_pairs(trajectories, options)
    credit = turn_credit(context, learner, trajectories, options)
    if options.pairs == "turn":
        return turn_pairs(trajectories, credit, options)
    forks = worst_turns(trajectories, credit, options)
    branches = context.rollouts.branch(
        learner.policy,
        [Fork(trajectory, turn) for trajectory, turn in forks],
        options.branches,
        label=f"{context.stage}-branch",
        record=True,
    )
    return require_better_branch(context.stage, forks, branches, segment_pairs(forks, branches, options), options)


def require_better_branch(
    stage: str,
    forks: Sequence[tuple[Trajectory, int]],
    branches: Sequence[Trajectory],
    pairs: list[Pair],
    options: PreferSection,
) -> list[Pair]:
    """Return the pairs unchanged.

    Raises: RecipeError that says how the branches ended, if there are forks but no pairs.
    """
    if forks and not pairs:
        failed = sum(not branch.valid for branch in branches)
        raise RecipeError(
            f"The stage {stage!r} played {counted(len(branches), 'branch')} from the worst turns of "
            f"{counted(len(forks), 'failed episode')}, but none was better than its episode by more than margin = "
            f"{options.margin} ({failed} of them could not be played). Raise its option branches, or lower margin."
        )
    return pairs


def _labelled(stage: str, trajectories: Sequence[Trajectory], options: PreferSection) -> tuple[Rows, list[Trajectory]]:
    """Label each valid episode as good or bad. Raises: RecipeError unless both labels occur."""
    valid = [trajectory for trajectory in trajectories if trajectory.valid]
    scores = [score_of(trajectory, options.score) for trajectory in valid]
    labels = [score >= options.desirable_from for score in scores]
    if len(set(labels)) < 2:
        raise RecipeError(
            f"The stage {stage!r} labels all {counted(len(valid), 'episode')} as {'good' if labels[0] else 'bad'} "
            f"(desirable_from = {options.desirable_from}), but kto needs both kinds. Collect more episodes, or change "
            "desirable_from."
        )
    rows: Rows = [
        {"episode": trajectory.id, "good": label, "score": score}
        for trajectory, label, score in zip(valid, labels, scores, strict=True)
    ]
    return rows, valid


def undesirable_weight(rows: Rows, options: PreferSection) -> float:
    """Return the recipe's weight of bad episodes, by default balanced with the good. Source: KTO, see KtoLoss."""
    if options.undesirable_weight is not None:
        return options.undesirable_weight
    goods = sum(row["good"] for row in rows)
    return float(options.desirable_weight * goods / (len(rows) - goods))


def _labelled_groups(chosen: Rows, by_id: Mapping[str, Trajectory]) -> list[tuple[list[ScoredRow], list[float]]]:
    """Return rows for KTO: each episode, and after the same prompt the next episode's completion, to estimate the
    policy's KL.
    """
    episodes = [by_id[row["episode"]] for row in chosen]
    groups = []
    for row, episode, other in zip(chosen, episodes, [*episodes[1:], episodes[0]], strict=True):
        rows = [
            ScoredRow.of(episode, [1.0] * len(episode.turns)),
            ScoredRow.mismatched(other, episode.prompt_ids),
        ]
        groups.append((rows, [float(rows[0].weights.sum()) if row["good"] else 0.0, 0.0]))
    return groups


def _pair_groups(
    chosen: Rows, episodes: Mapping[str, Trajectory], options: PreferSection
) -> list[tuple[list[ScoredRow], list[float]]]:
    def row(episode: Trajectory, turns: Sequence[int]) -> ScoredRow:
        start, end = turns
        if options.loss == "dmpo":
            return ScoredRow.of(episode, dmpo_weights(len(episode.turns), options.gamma))
        return ScoredRow.of(episode, [float(start <= turn.index < end) for turn in episode.turns])

    groups = []
    for pair in chosen:
        rows = [row(episodes[pair[side]], pair[f"{side}_turns"]) for side in ("chosen", "rejected")]
        groups.append((rows, [float(rows[0].weights.sum()), 0.0]))
    return groups
