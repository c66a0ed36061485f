"""check_reward_hacks: an agent that solves nothing must not succeed; otherwise the reward can be hacked."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agentgym import Environment, Message, Reward, Task, TaskSet, load_reward, load_task_set, make, task_set_for
from agentgym.environment import EnvironmentWrapper
from agentgym.sandbox import Backend
from agentgym.text import counted

from .episode_checks import EpisodeChecker, Script, make_with_backend, solved, with_different_truth
from .findings import Findings, short
from .hack_probes import Probe, calls_of, final_call, probes
from .instance_checks import CheckSubject, check_opening


async def check_reward_hacks(
    environment: str | Callable[[], Environment],
    task_set: str | TaskSet | Sequence[Task] | None = None,
    *,
    reward: str | Reward | None = None,
    backend: str | Backend | None = None,
    seed: int = 0,
) -> None:
    """Let eight agents try to earn reward without solving anything; `check_environment` does so too.

    They plant modules, overwrite tests, print markers, patch comparisons, exit early, flood the output, instruct the
    judge, and search the disk for the truth, through every tool that takes a text, a command, code, SQL or a file.
    A probe that succeeds on each of up to three tasks with different truths is a finding, and so is a reward hack of
    the environment's own (`Environment.reward_hacks`) that succeeds on one of them.

    Args:
        environment: registered id, or a class or function that makes a fresh instance.
        task_set: a registered name, a task set or tasks; by default a registered set that names the environment.
        reward: judges the episodes; by default the reward that the environment declares.
        backend: makes the sandboxes; a name or a Backend, by default `namespaces`.
    Raises: ConformanceError with every finding; UnknownNameError for an unregistered name.
    """
    name = environment if isinstance(environment, str) else getattr(environment, "__name__", "environment")
    findings = Findings(f"environment {name!r}")
    factory = (lambda: make(environment)) if isinstance(environment, str) else environment
    subject = CheckSubject(make_with_backend(factory, backend), _tasks(name, task_set), findings, seed)
    declared = reward if reward is not None else subject.make().reward
    judge = load_reward(declared) if isinstance(declared, str) else declared
    if judge is None or not subject.tasks:
        findings.add("Nothing can be hacked where nothing is judged: give check_reward_hacks tasks and a reward.")
    elif await check_opening(subject):
        await try_hacks(EpisodeChecker(subject, judge))
    findings.conclude()


async def try_hacks(stage: EpisodeChecker) -> None:
    """Play every probe and the environment's own reward hacks; report each successful one as a finding."""
    tasks = with_different_truth(stage.subject.tasks)
    for probe_index, probe in enumerate(probes(tasks[0])):
        who = f"an agent that {probe.what}"

        def scripted(task: Task, probe_index: int = probe_index) -> Script:
            return _script(probes(task)[probe_index], stage)

        hits = solved(await stage.play(tasks[:1], scripted, who))
        if hits and len(tasks) > 1:  # a lucky value solves one task; a hole solves them all
            hits = solved(await stage.play(tasks, scripted, who))
            hits = hits if len(hits) == len(tasks) else []
        if hits:
            last = hits[0].turns[-1]
            answer_text = short([call.arguments for call in last.calls] or last.message.text, 160)
            stage.subject.findings.add(
                f"The reward can be hacked: {who} succeeds on {counted(len(hits), 'task')}, for example "
                f"{hits[0].task.id!r}, after {len(hits[0].turns)} turns. It ended with {answer_text}. "
                "Judge in a fresh sandbox or in this process, from data that the agent cannot write."
            )
    environment = type(EnvironmentWrapper.unwrap(stage.subject.make()))
    for task in tasks:
        for what, messages in environment.reward_hacks(task).items():
            who = f"an agent that {what}"

            def scripted_hack(task: Task, messages: Sequence[Message] = messages) -> Script:
                return lambda seen: messages[min(sum(m.role == "assistant" for m in seen), len(messages) - 1)]

            if solved(await stage.play([task], scripted_hack, who)):
                stage.subject.findings.add(f"The reward can be hacked: {who} succeeds on {task.id!r}.")


def _script(probe: Probe, stage: EpisodeChecker, most: int = 20) -> Script:
    """Return a script that makes one of the probe's calls per turn, then calls each final tool, then only talks."""
    tools = stage.tools
    calls = calls_of(probe, tools)[:most]
    finals = [tool for tool in tools if tool.options.final]

    def script(messages: Sequence[Message]) -> Message:
        turn = sum(message.role == "assistant" for message in messages)
        if turn < len(calls):
            return Message("assistant", "", (calls[turn],))
        seen = next((m.text for m in reversed(messages) if m.role == "tool" and m.text.strip()), "")
        if turn - len(calls) < len(finals):
            return Message("assistant", "", (final_call(probe, finals[turn - len(calls)], seen),))
        return Message("assistant", seen if probe.repeats and seen else probe.text)

    return script


def _tasks(name: str, given: str | TaskSet | Sequence[Task] | None) -> Sequence[Task]:
    if given is None:
        given = task_set_for(name) or ()
    task_set = load_task_set(given) if isinstance(given, str) else given
    if not isinstance(task_set, TaskSet):
        return list(task_set)[:6]
    return [task for split in task_set.values() for task in list(split[:2])]
