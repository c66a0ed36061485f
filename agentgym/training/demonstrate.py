"""Demonstrations: the task set's scripted players play training tasks, tokenised so that a model can imitate them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager

from agentgym.errors import TaskError
from agentgym.policy.contract import Renderer, with_call_ids
from agentgym.policy.scripted import ScriptedPolicy
from agentgym.rollout.conversation import Conversation
from agentgym.rollout.environments import schemas_of
from agentgym.rollout.rollouts import Rollouts
from agentgym.task.definition import Task, seed_of
from agentgym.task.mixture import by_weight
from agentgym.task.task_set import TaskSet
from agentgym.training.recipe.warm_start_section import WarmStartSection
from agentgym.trajectory.record import Trajectory

DEMONSTRATION = "demonstration"
"""Prefix of the labels of demonstrations; the player's name follows."""


def demonstrations(
    rollouts: Rollouts,
    task_set: TaskSet,
    count: int,
    *,
    imperfect_oracle: float = 0.0,
    seed: int = 0,
    weights: Mapping[str, float] = {},
    on_trajectory: Callable[[Trajectory], None] | None = None,
) -> list[Trajectory]:
    """Let the task set's scripted players play `count` randomly drawn training tasks.

    Args:
        imperfect_oracle: the fraction of the tasks that the set's imperfect oracle plays. The imperfect oracle uses the
            tools well, for the wrong goal. So a policy that imitates both players learns to use the tools, and only
            reward can teach it the goal.
        weights: the weights of the sets of a mixture; if empty, all tasks are equally likely.
        on_trajectory: called with each episode when it ends.
    Returns: the oracle's successful episodes, then all valid episodes of the imperfect oracle.
    Raises: TaskError if the set lacks a player, or if its oracle solves no task.
    """
    tasks = sorted(task_set["train"], key=lambda task: seed_of(seed, task.id))[:count]
    if weights:
        tasks = by_weight(task_set["train"], count, weights, seed)
    oracle_count = len(tasks) - round(imperfect_oracle * len(tasks))

    def play(player: str, player_tasks: Sequence[Task]) -> list[Trajectory]:
        script = task_set.player(player)
        return rollouts.play(
            lambda task: ScriptedPolicy(script(task)),
            player_tasks,
            label=f"{DEMONSTRATION}-{player}",
            record=False,
            on_trajectory=on_trajectory,
        )

    attempts = play("oracle", tasks[:oracle_count])
    solved = [t for t in attempts if t.valid and (t.success or 0) >= 1]
    if not solved:
        reason = next((t.error for t in attempts if t.error), "no infrastructure error")
        raise TaskError(
            f"The oracle of {task_set.name} solved none of {oracle_count} tasks ({reason}), so there is nothing to "
            "demonstrate. Mend the oracle or the reward, or use episodes of another player."
        )
    if not imperfect_oracle:
        return solved
    return solved + [t for t in play("imperfect_oracle", tasks[oracle_count:]) if t.valid]


class Demonstrations:
    """The demonstrations that a run has played. Equal options are played only once."""

    def __init__(self) -> None:
        self._episodes: dict[tuple[object, ...], list[Trajectory]] = {}

    def play(
        self,
        rollouts: Rollouts,
        section: WarmStartSection | None,
        task_set: TaskSet,
        weights: Mapping[str, float],
        seed: int,
        *,
        bar: Callable[[str, int], AbstractContextManager[Callable[[], None]]],
    ) -> list[Trajectory]:
        """Return the demonstrations of [warm_start]; without that section, enough to train a tokenizer.

        Args:
            weights, seed: as for `demonstrations`.
            bar: shows a progress bar with a title and a total, and yields what advances it by one.
        """
        section = section or WarmStartSection(demonstrations=200)
        task_set = task_set.tagged(*section.tags) if section.tags else task_set
        count = min(section.demonstrations, len(task_set["train"]))
        if (key := (count, section.imperfect_oracle, section.tags)) not in self._episodes:
            with bar("demonstrations", count) as advance:
                self._episodes[key] = demonstrations(
                    rollouts,
                    task_set,
                    count,
                    imperfect_oracle=section.imperfect_oracle,
                    seed=seed,
                    weights=weights,
                    on_trajectory=lambda _: advance(),
                )
        return self._episodes[key]


def tokenise(trajectory: Trajectory, renderer: Renderer) -> Trajectory:
    """Fill in the token ids of a trajectory that was played without a renderer, as if the model had played it."""
    trajectory.prompt_ids = renderer.prompt(trajectory.opening, schemas_of(trajectory))
    for further in trajectory.further_rows:
        further.prompt_ids = renderer.prompt(further.opening, further.tools)
    for row in trajectory.rows():
        conversation = Conversation(row.opening, schemas_of(row), renderer)
        for turn in row.turns:
            turn.token_ids = renderer.encode(with_call_ids(renderer, turn.message, conversation.messages))
            turn.logprobs = [0.0] * len(turn.token_ids)
            observation_ids = conversation.append(turn)
            if turn is not row.turns[-1]:
                turn.observation_ids = observation_ids
    return trajectory
