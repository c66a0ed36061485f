"""check_reward: a judge returns finite named components, the same each time, and changes nothing."""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from agentgym import (
    Call,
    JudgeError,
    Message,
    Result,
    ResultStatus,
    Reward,
    RewardError,
    StopReason,
    Task,
    Trajectory,
    Turn,
    load_reward,
)
from agentgym.reward import validate_components, validate_each, validate_spans

from .findings import Findings, short
from .thoughts import with_thoughts

ALONE = ("turn", "outcome")  # stages at which a reward returns a single dict
STRANGE_TASK = Task("strange", "test/strange-v1", prompt="Is this a task?")


async def check_reward(reward: str | Reward, trajectories: Sequence[Trajectory] = ()) -> None:
    """Let a reward judge the given episodes, truncated variants of each, and malformed episodes.

    An episode may have no turn, no valid call, no result, or a task without truth. The reward must score it or raise
    JudgeError; any other exception is a finding.

    Args:
        reward: a registered name, or the reward itself.
        trajectories: finished episodes of tasks that the reward can judge.
    Raises: ConformanceError with every finding.
    """
    judge = load_reward(reward) if isinstance(reward, str) else reward
    findings = Findings(f"reward {reward if isinstance(reward, str) else type(reward).__name__!r}")
    if not isinstance(judge, Reward):
        findings.add(f"{judge!r} is no Reward: subclass agentgym.Reward.")
        findings.conclude()
    if not inspect.cleandoc(vars(type(judge)).get("__doc__") or ""):
        findings.add(f"{type(judge).__name__} has no docstring: say what it judges, and from what.")
    for name, weight in judge.weights.items():
        if isinstance(weight, bool) or not isinstance(weight, (int, float)) or not math.isfinite(weight):
            findings.add(f"The weight of {name!r} is {weight!r}: a weight is a finite number.")
    for trajectory in trajectories:
        await _check(judge, trajectory, f"episode {trajectory.id!r}", findings, may_refuse=False)
        for what, shortened in _shortened(trajectory):
            await _check(judge, shortened, f"episode {trajectory.id!r} {what}", findings, may_refuse=True)
    for what, strange in _strange(STRANGE_TASK):
        await _check(judge, strange, f"an episode {what}", findings, may_refuse=True)
    findings.conclude()


async def _check(judge: Reward, trajectory: Trajectory, what: str, findings: Findings, *, may_refuse: bool) -> None:
    before = repr(trajectory)
    first = await _ask(judge, trajectory, what, findings, may_refuse)
    repeated = await _ask(judge, copy.deepcopy(trajectory), what, findings, may_refuse)
    if first != repeated:
        findings.add(f"Judging {what} twice gave {short(first)} and then {short(repeated)}.")
    if repr(trajectory) != before:
        findings.add(f"Judging {what} changed the episode: a judge only reads.")
    thoughtful = await _ask(judge, with_thoughts(trajectory), f"{what} with thoughts", findings, may_refuse)
    if thoughtful != first and not judge.reads_thoughts:
        findings.add(
            f"Judging {what} gave {short(first)}, and {short(thoughtful)} where the agent thought too. Read "
            "`message.text`, which is what it says, or set `reads_thoughts = True`."
        )


async def _ask(judge: Reward, trajectory: Trajectory, what: str, findings: Findings, may_refuse: bool) -> list[Any]:
    """Ask a reward everything about an episode, and return its answers.

    There is one answer for each turn, and one each for the outcome, for hindsight, for the spans and, if the episode is
    valid, for a group of this episode alone. Where the reward raised an error, the error's name (with the message of a
    JudgeError) takes the place of the answer.
    """
    given: list[Any] = []
    moments: list[tuple[str, tuple[Any, ...], int]] = [("turn", (turn, trajectory), 0) for turn in trajectory.turns]
    moments += [("outcome", (trajectory,), 0), ("hindsight", (trajectory,), len(trajectory.turns))]
    moments += [("spans", (trajectory,), 0)]
    moments += [("group", ([trajectory],), 1)] if trajectory.valid else []
    for moment, views, count in moments:
        try:
            answer = getattr(judge, moment)(*views)
            if moment == "spans":
                given.append(await validate_spans(answer, judge, trajectory.turns))
                continue
            each = (
                [await validate_components(answer, judge)]
                if moment in ALONE
                else await validate_each(answer, judge, count)
            )
            if wrong := [
                name
                for reward_components in each
                for name in reward_components
                if not isinstance(name, str) or not name
            ]:
                findings.add(f"A component of {what} is named {wrong[0]!r}: names are text.")
            given.append([dict(reward_components) for reward_components in each])
        except JudgeError as error:
            given.append(f"JudgeError: {error}")
            if not may_refuse:
                findings.add(f"It cannot judge {what}: {short(error)}")
        except RewardError as error:
            given.append("RewardError")
            findings.add(f"Judging {what}: {short(error, 300)}")
        except Exception as error:  # noqa: BLE001  a judge raises JudgeError and nothing else
            given.append(type(error).__name__)
            findings.add(
                f"Judging {what} ({moment}) raised {type(error).__name__}: {short(error)}. A judge that cannot judge "
                "raises JudgeError."
            )
    return given


def _shortened(trajectory: Trajectory) -> list[tuple[str, Trajectory]]:
    """Return variants of the episode: those that a budget, a broken call or a broken machine could leave."""
    variants = [
        ("without its last turn", replace(trajectory, turns=trajectory.turns[:-1], stop_reason=StopReason.MAX_TURNS)),
        ("without any turn", replace(trajectory, turns=[], stop_reason=StopReason.CONTEXT_FULL)),
        ("without its truth", replace(trajectory, task=trajectory.task.public())),
    ]
    if trajectory.turns:
        last = replace(trajectory.turns[-1], results=())
        variants.append(("whose last calls have no result", replace(trajectory, turns=[*trajectory.turns[:-1], last])))
    return variants


def _strange(task: Task) -> list[tuple[str, Trajectory]]:
    call, broken = Call("a", {"x": "y"}, "call_0"), Call("", {}, "call_0", "This is no call.")
    refused = Result("No.", ResultStatus.TOOL_ERROR, "a", "call_0")
    final = Result("", ResultStatus.OK, "a", "call_0", final=True)
    turns = {
        "that only talked": Turn(0, Message("assistant", "I do not know.")),
        "that said nothing": Turn(0, Message("assistant", "")),
        "whose call is none": Turn(
            0, Message("assistant", "", (broken,)), (broken,), (Result("No.", ResultStatus.MALFORMED),)
        ),
        "whose call was refused": Turn(0, Message("assistant", "", (call,)), (call,), (refused,)),
        "ended by a tool it does not know": Turn(0, Message("assistant", "", (call,)), (call,), (final,)),
    }
    variants = [("without a turn", Trajectory("strange#0", task, stop_reason=StopReason.MAX_TOKENS))]
    for what, turn in turns.items():
        variants.append((what, Trajectory("strange#0", task, turns=[turn], stop_reason=StopReason.ANSWERED)))
    return variants
