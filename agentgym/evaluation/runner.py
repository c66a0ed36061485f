"""Play a fixed list of tasks with one agent and record the outcomes."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial

from agentgym import __version__, registry
from agentgym.deprecation import renamed_keywords
from agentgym.environment.contract import Environment
from agentgym.errors import EvaluationError, TaskError
from agentgym.evaluation.choices import check_choices, check_components, choice_key
from agentgym.evaluation.held_out_uses import HeldOutUse, note_use
from agentgym.evaluation.outcomes import TaskOutcome
from agentgym.evaluation.price import PRICE, Price, Spending
from agentgym.evaluation.record import Evaluation, hash_of, manifest_of, weaker_limits
from agentgym.policy.contract import Policy
from agentgym.rollout.config import RolloutConfig
from agentgym.rollout.environment_options import check_environment_options
from agentgym.rollout.manager import EpisodeManager
from agentgym.rollout.search import EpisodeSearch, SearchUsage
from agentgym.storage.failures import calls_of, count_failures
from agentgym.storage.identity import identity_of_policy
from agentgym.storage.ledger import Ledger
from agentgym.task.definition import Task, seed_of
from agentgym.task.task_set import TaskSet
from agentgym.trajectory.record import Trajectory


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of an evaluation: episodes done, in total, solved and failed so far, and their price."""

    done: int
    total: int
    solved: float
    failed: int
    spent: float = 0.0


@renamed_keywords(seen="on_trajectory")
async def evaluate(
    policy: Policy | Callable[[Task], Policy],
    task_set: str | TaskSet,
    split: str = "held_out",
    *,
    config: RolloutConfig = RolloutConfig(),  # noqa: B008  frozen
    label: str | None = None,
    policy_name: str | None = None,
    limit: int | None = None,
    ledger: Ledger | None = None,
    step: int | None = None,
    search: EpisodeSearch | None = None,
    price: Price | None = None,
    max_cost: float | None = None,
    choose_by: Sequence[str] = (),
    progress: Callable[[Progress], None] | None = None,
    on_trajectory: Callable[[Trajectory], None] | None = None,
) -> Evaluation:
    """Play every task `config.group_size` times and return the record.

    With a ledger an interrupted evaluation resumes: a call with the same label, policy and config reads finished
    episodes back and plays the rest. The new call may ask for more tasks and a larger group.

    Args:
        policy: the agent, or a function that makes an agent for each task, such as an oracle.
        task_set, split: the tasks to play. `held_out` cannot be read inside `training_only()`.
        config: how to play. The default temperature is 0 if each task is played once, else 1.
        label: name of the record and of its episodes; by default the split.
        limit: play only the first `limit` tasks of a fixed random order, so that a small limit gives a random sample.
            The order is the same for every agent and seed.
        search: a search over the turns of each episode. Its cost is recorded under `usage`.
        price: the prices of a million tokens; the usage of each episode then has the key `price`.
        max_cost: the maximum price of all episodes. The evaluation stops after the episode that exceeds it. Episodes
            that are still running are lost, so the bill may be higher. The price of a search is not counted.
        choose_by: ways to choose one of a task's episodes without the truth, whose success is measured too: `majority`
            (of answers), `agreement` (of the last results before them), or an outcome component as a score.
        progress: called after each episode, with counts.
        on_trajectory: called with each trajectory when it ends.
        step: training step of the weights, for the record.
    Warns: of tasks that need more turns than `config` allows.
    Raises: EvaluationError for a limit below 1, for a price above `max_cost`, a search that reads the outcome
        without declaring it, a choice among one episode, by `success` or by a component that the reward does not give;
        DifferentRunError for a ledger that holds another measurement under this label; SearchError; TaskError for an
        empty split; HeldOutError; EnvironmentOptionError; the registry's errors for unknown names.
    """
    if search is not None:
        search.check_evaluation()
    check_choices(choose_by, config.group_size)
    chosen = registry.load_task_set(task_set) if isinstance(task_set, str) else task_set
    tasks = choose(chosen, split, limit)
    check_environment_options(tasks, config)
    warn_of_few_turns(tasks, config)
    label, spending = label or split, Spending(price, max_cost)
    if config.temperature is None:
        config = replace(config, temperature=0.0 if config.group_size == 1 else 1.0)
    name = policy_name or (policy.name if isinstance(policy, Policy) else "one policy per task")
    note_held_out = partial(note_held_out_use, chosen, split, tasks, policy=name, label=label, seed=config.seed)
    held_out_uses = note_held_out(judged=False)
    identity = {"policy": identity_of_policy(policy, name), "task_set": chosen.name, "split": split, "step": step}
    identity["search"] = None if search is None else search.describe()
    manager = EpisodeManager(policy, config, ledger=ledger, label=f"evaluation/{label}", identity=identity)
    started, clock, cpu_before_s = time.time(), time.monotonic(), sum(os.times()[:4])
    trajectories: list[Trajectory] = []
    solved, failed, is_noted = 0.0, 0, False
    costs: dict[tuple[str, int], SearchUsage] = {}
    total = len(tasks) * config.group_size
    async for trajectory in _episodes(manager, tasks, search, costs):
        trajectories.append(trajectory)
        solved += trajectory.success or 0.0 if trajectory.scored else 0.0
        failed += not trajectory.scored
        if trajectory.scored and not is_noted:
            is_noted = note_held_out(judged=True) is not None
        if on_trajectory is not None:
            on_trajectory(trajectory)
        spending.add(trajectory, len(trajectories), total)
        if progress is not None:
            progress(Progress(len(trajectories), total, solved, failed, spending.spent))
    order = {task.id: position for position, task in enumerate(tasks)}
    trajectories.sort(key=lambda trajectory: (order[trajectory.task.id], trajectory.sample))
    evaluation = from_trajectories(
        trajectories,
        label=label,
        task_set=chosen,
        split=split,
        step=step,
        config=config,
        policy=name,
        choose_by=choose_by,
    )
    if price is not None:
        for usage in (usage for row in evaluation.rows for usage in row.usage):
            usage[PRICE] = price.of(usage)
    if search is not None:
        add_search(evaluation, search, costs)
    evaluation.held_out_uses = held_out_uses
    evaluation.created, evaluation.duration_s = started, round(time.monotonic() - clock, 3)
    evaluation.cpu_s = round(sum(os.times()[:4]) - cpu_before_s, 2)
    return evaluation


async def _episodes(
    manager: EpisodeManager,
    tasks: Sequence[Task],
    search: EpisodeSearch | None,
    costs: dict[tuple[str, int], SearchUsage],
) -> AsyncIterator[Trajectory]:
    """Yield each episode when it ends. With a search, add its cost to `costs`."""
    if search is None:
        async for trajectory in manager.run(tasks):
            yield trajectory
        return
    searching = search.play(manager, tasks, label=manager.label, group_size=manager.config.group_size)
    async with aclosing(searching) as searched:
        async for each in searched:
            costs[each.trajectory.task.id, each.trajectory.sample] = each.cost
            yield each.trajectory


def add_search(evaluation: Evaluation, search: EpisodeSearch, costs: Mapping[tuple[str, int], SearchUsage]) -> None:
    """Record the search of an evaluation, and add its cost per task and sample to the usage of the episodes."""
    evaluation.search = search.describe()
    for row in evaluation.rows:
        for sample, usage in enumerate(row.usage):
            usage.update(costs[row.task, sample].usage())


def from_trajectories(
    trajectories: Sequence[Trajectory],
    *,
    label: str,
    task_set: TaskSet,
    split: str,
    policy: str,
    config: RolloutConfig | None = None,
    step: int | None = None,
    choose_by: Sequence[str] = (),
) -> Evaluation:
    """Return the record of episodes that were played elsewhere, for example by a trainer.

    Args:
        trajectories: every sample of every task, with tasks in the order to list them.
        config: how the episodes were played, if that should be recorded.
        choose_by: as for `evaluate`.
    Raises: EvaluationError if nothing was played, a task has fewer samples than another, or an episode
        was judged without a `success` component.
    """
    by_task: dict[str, list[Trajectory]] = {}
    for trajectory in trajectories:
        by_task.setdefault(trajectory.task.id, []).append(trajectory)
    if not by_task:
        raise EvaluationError(f"{label}: no episode was played, so there is nothing to measure.")
    group_size = max(map(len, by_task.values()))
    if short := [name for name, group in by_task.items() if len(group) < group_size]:
        raise EvaluationError(
            f"{label}: the run is not complete, because {len(short)} tasks have fewer than {group_size} episodes, for "
            f"example {short[0]!r}. Resume the run, then evaluate."
        )
    check_components(choose_by, trajectories)
    first = trajectories[0]
    return Evaluation(
        label=label,
        task_set=task_set.name,
        split=split,
        fingerprint=task_set.fingerprint(),
        policy=policy,
        group_size=group_size,
        seed=config.seed if config else 0,
        rows=[row_of(group, choose_by) for group in by_task.values()],
        manifest=manifest_of([group[0].task for group in by_task.values()]),
        run=first.id.removesuffix(f"/{first.task.id}#{first.sample}"),
        step=step,
        created=time.time(),
        duration_s=round(max(t.duration_s for t in trajectories), 3),
        version=__version__,
        sampling=_sampling_of(config) if config else {},
        knowledge="" if config is None or config.knowledge is None else config.knowledge.describe(),
        weaker_limits=weaker_limits(trajectories),
    )


def note_held_out_use(
    task_set: TaskSet, split: str, tasks: Sequence[Task], *, policy: str, label: str, seed: int, judged: bool = True
) -> int | None:
    """Record that held-out tasks were played; see agentgym.evaluation.held_out_uses.

    Args:
        judged: whether any of their episodes was judged; if not, nothing is recorded.
    Returns: how often they had been played before; None for another split, or if uses are not counted.
    """
    if split != "held_out":
        return None
    fingerprint, manifest = task_set.fingerprint(), manifest_of(tasks)
    return note_use(HeldOutUse(task_set.name, fingerprint, manifest, policy, label, seed, len(tasks)), judged=judged)


def choose(task_set: TaskSet, split: str, limit: int | None = None, *, stratum: str | None = None) -> list[Task]:
    """Return the tasks to play: all in the order of the set, or `limit` of them in a fixed random order.

    Args:
        stratum: only tasks with this tag.
    Raises: TaskError if there is no such task, EvaluationError for a limit below 1.
    """
    tasks = [task for task in task_set[split] if stratum is None or stratum in task.tags]
    if not tasks:
        sizes = ", ".join(f"{name} {len(task_set[name])}" for name in task_set if name not in (split, "held_out"))
        other = f"Its other splits are: {sizes}." if stratum is None else "Give a tag of its tasks."
        tagged = "" if stratum is None else f" with the tag {stratum!r}"
        raise TaskError(f"{task_set.name} has no tasks{tagged} in {split!r}, so there is nothing to play. {other}")
    if limit is not None and limit < 1:
        raise EvaluationError(f"limit = {limit} is not valid: play at least 1 task.")
    if limit is None or limit >= len(tasks):
        return tasks
    return sorted(tasks, key=lambda task: seed_of("limit", task_set.name, split, task.id))[:limit]


def _sampling_of(config: RolloutConfig) -> dict[str, float]:
    """Return the sampling options under the names of evaluation records and of vLLM's SamplingParams."""
    temperature = 1.0 if config.temperature is None else config.temperature
    return {"temperature": temperature, "top_p": config.top_p, "max_tokens": config.budgets.max_turn_tokens}


def row_of(group: Sequence[Trajectory], choose_by: Sequence[str] = ()) -> TaskOutcome:
    """Return the outcomes of a task's episodes.

    Raises: EvaluationError for an episode that was played with help, or has no `success`.
    """
    if helped := [(t, t.provenance.assistance) for t in group if t.provenance.assistance is not None]:
        raise EvaluationError(
            f"{helped[0][0].id} was played with a {helped[0][1].kind}, but an evaluation must measure the policy "
            "without help. Play the task without it."
        )
    row = TaskOutcome(group[0].task.id, list(group[0].task.tags), hash=hash_of(group[0].task))
    for trajectory in sorted(group, key=lambda t: t.sample):
        if trajectory.scored and trajectory.success is None:
            raise EvaluationError(
                f"{trajectory.id} was judged without a component 'success', which evaluation reads (its outcome is "
                f"{dict(trajectory.outcome)}). Let the reward return {{'success': 0.0 to 1.0}} from `outcome`."
            )
        calls, calls_ok = calls_of(trajectory)
        row.success.append(trajectory.success if trajectory.scored else None)
        row.turns.append(len(trajectory.turns))
        row.stop.append(trajectory.stop_reason.value if trajectory.stop_reason else "")
        row.calls.append(calls)
        row.calls_ok.append(calls_ok)
        row.reward.append(trajectory.return_from())
        row.tokens.append(sum(len(turn.token_ids) for turn in trajectory.turns))
        row.duration_s.append(round(trajectory.duration_s, 4))
        row.failures.append(dict(count_failures(trajectory)))
        row.error.append("" if trajectory.scored else trajectory.error or "")
        row.outcome.append(dict(trajectory.outcome) if trajectory.scored else {})
        row.usage.append({name: round(value, 6) for name, value in trajectory.usage().items()})
        for choice in choose_by:
            row.choices.setdefault(choice, []).append(choice_key(choice, trajectory))
    return row


def warn_of_few_turns(tasks: Sequence[Task], config: RolloutConfig) -> None:
    """Warn if `Environment.least_turns` of any task exceeds `budgets.max_turns`."""
    most = config.budgets.max_turns
    needed = [count for task in tasks if (count := _least_turns(task, config)) > most]
    if needed:
        warnings.warn(
            (
                f"{len(needed)} of {len(tasks)} tasks cannot be solved within max_turns = {most}, because they "
                f"need up to {max(needed)} turns. Give max_turns={max(needed)} or more (--max-turns on the "
                "command line)."
            ),
            stacklevel=3,
        )


def _least_turns(task: Task, config: RolloutConfig) -> int:
    environment = config.environment_for(task)
    factory = registry.load("environments", environment) if isinstance(environment, str) else environment
    least = getattr(factory, "least_turns", Environment.least_turns)
    return int(least(task))
