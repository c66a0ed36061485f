"""check_environment: tests every promise of the environment contract on a live instance."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from agentgym import Environment, Reward, Task, TaskSet, load_reward, load_task_set, make, task_set_for
from agentgym.environment import EnvironmentWrapper
from agentgym.sandbox import Backend

from . import close_checks, episode_checks, instance_checks, pace_checks
from .farming import check_farming
from .findings import Findings
from .reward_hacks import try_hacks
from .thoughts import check_thoughts


async def check_environment(
    environment: str | Callable[[], Environment],
    task_set: str | TaskSet | Sequence[Task] | None = None,
    oracle: Callable[[Task], Any] | None = None,
    *,
    reward: str | Reward | None = None,
    backend: str | Backend | None = None,
    sample: int = 6,
    chance: float = 0.05,
    public: Sequence[str] = (),
    seed: int = 0,
    note: Callable[[str], None] = lambda step: None,
) -> list[str]:
    """Check an environment with dozens of short episodes, played by hand and through the episode manager.

    Always: tools are described, return, and do not block the event loop; the same seed and calls give the same
    results, also after and beside other episodes; every call is answered, however wrong or hostile; parallel calls keep
    their order; a checkpoint restores; the task stays unchanged; `close` frees everything, even if called twice or
    after a cancelled call.
    With tasks and a reward: the truth is not shown; agents that do nothing, act at random or are hostile do not
    succeed, nor do agents that try to hack the reward (check_reward_hacks); the oracle succeeds and earns more than
    agents that only repeat a call; an agent's thoughts change nothing; the reward is finite and has `success`.

    Args:
        environment: registered id, or a class or function that makes a fresh instance.
        task_set: a registered name, a task set or tasks. By default, a registered environment is played with a
            registered set that names it, if there is one; otherwise with one plain task.
        oracle: maps a task to the script that solves it; by default the task set's oracle.
        reward: judges the episodes; by default the reward that the environment declares.
        backend: makes the sandboxes; a name or a Backend, by default `namespaces`.
        sample: number of tasks to play.
        chance: success rate allowed for an agent that acts at random.
        public: keys of the truth that the agent may see, in addition to the environment's `public_truth`.
        note: called with a description of each step before it begins.
    Returns: what was checked, one line per check.
    Raises: ConformanceError with every finding; UnknownNameError for an unregistered name.
    """
    name = environment if isinstance(environment, str) else getattr(environment, "__name__", "environment")
    findings = Findings(f"environment {name!r}")
    factory = (lambda: make(environment)) if isinstance(environment, str) else environment
    if task_set is None and isinstance(environment, str):
        task_set = task_set_for(name)
    tasks, found_oracle = _tasks(name, task_set, sample)
    subject = instance_checks.CheckSubject(episode_checks.make_with_backend(factory, backend), tasks, findings, seed)
    if not _check_definition(subject):
        findings.conclude()
    checked: list[str] = []
    note("resetting")
    if await instance_checks.check_opening(subject):
        checked.append(f"{len(subject.tools)} tools explain themselves")
        note("calling each tool")
        if not await pace_checks.check_pace(subject):
            findings.conclude()  # the checks below call each tool dozens of times
        note("playing the same seed again")
        await instance_checks.check_determinism_and_isolation(subject)
        note("making wrong and hostile calls")
        await pace_checks.check_answers(subject)
        note("restoring a checkpoint")
        await instance_checks.check_checkpoint(subject)
        note("closing")
        await close_checks.check_close(subject)
        checked.append(
            "equal seeds give equal results, episodes do not affect each other, every call is answered, "
            "checkpoints restore, close frees everything"
        )
        has_tasks = bool(found_oracle or task_set)
        await _check_episodes(subject, reward, oracle or found_oracle, chance, public, has_tasks, checked, note)
    findings.conclude()
    return checked


def _check_definition(subject: instance_checks.CheckSubject) -> bool:
    """Check that the factory makes a fresh Environment each time, and that its class has a docstring."""
    findings = subject.findings
    with findings.no_exception("Making an instance"):
        first, second = subject.make(), subject.make()
        if not isinstance(first, Environment):
            findings.add(f"The factory made {type(first).__name__}, which is no Environment.")
            return False
        if first is second:
            findings.add("The factory gave the same instance twice: an environment serves one episode only.")
        if not inspect.cleandoc(vars(type(first)).get("__doc__") or ""):
            findings.add("The class has no docstring: say in a line what it is, and what isolation does not cover.")
        return True
    return False


async def _check_episodes(
    subject: instance_checks.CheckSubject,
    reward: str | Reward | None,
    oracle: Callable[[Task], Any] | None,
    chance: float,
    public: Sequence[str],
    has_tasks: bool,
    checked: list[str],
    note: Callable[[str], None],
) -> None:
    note("playing without a judge")
    declared = reward if reward is not None else subject.make().reward
    judge: Reward | None = None
    if declared is not None:
        with subject.findings.no_exception(f"Loading the reward {declared!r}"):
            judge = load_reward(declared) if isinstance(declared, str) else declared
    await episode_checks.check_cancelled(episode_checks.EpisodeChecker(subject, None))
    await episode_checks.check_private_texts(episode_checks.EpisodeChecker(subject, None))
    if not has_tasks:  # only a plain task, which no reward can judge
        await episode_checks.check_parallel_calls(episode_checks.EpisodeChecker(subject, episode_checks.Unjudged()))
        checked.append("without tasks, no reward was checked: name a task set")
        return
    stage, tasks = episode_checks.EpisodeChecker(subject, judge), subject.tasks
    public = (*public, *type(EnvironmentWrapper.unwrap(subject.make())).public_truth)
    await episode_checks.check_truth_hidden(episode_checks.EpisodeChecker(subject, None), tasks, public)
    await episode_checks.check_parallel_calls(episode_checks.EpisodeChecker(subject, None))
    note("playing agents that do nothing or act at random")
    if await episode_checks.check_judged(stage):
        checked.append("agents that do nothing, and one that acts at random, do not succeed")
        if await episode_checks.check_lazy_agents(stage, tasks, chance):
            note("playing agents that attack the reward")
            await episode_checks.check_own_reward(stage)
            await try_hacks(stage)
            checked.append("agents that attack the reward do not succeed")
        if oracle is None:
            return
        checked.append(f"the oracle solves {len(tasks)} tasks")
        note("playing the oracle")
        solutions = await episode_checks.check_oracle(stage, tasks, oracle)
        if solutions and (farmers := await check_farming(stage, solutions[0])):
            checked.append(f"{farmers} agents that repeat one call earn less than the oracle")
        if solutions:
            await check_thoughts(stage, solutions[0])
            checked.append("what the agent thinks changes nothing")


def _tasks(
    name: str, given: str | TaskSet | Sequence[Task] | None, sample: int
) -> tuple[Sequence[Task], Callable[[Task], Any] | None]:
    """Return the tasks to play, and the oracle of their task set."""
    if given is None:
        return [Task("conformance", name, prompt="This is a conformance check. Do as the tools allow.")], None
    task_set = load_task_set(given) if isinstance(given, str) else given
    if not isinstance(task_set, TaskSet):
        return list(task_set)[:sample], None
    splits = [split for split in task_set.values() if len(split)]
    share = -(-sample // len(splits))
    chosen = [split[index * len(split) // share] for split in splits for index in range(min(share, len(split)))]
    return chosen[:sample], task_set.oracle
