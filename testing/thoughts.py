"""Checks that an agent's thoughts change neither results, nor replies, nor rewards."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from agentgym import Message, Task, Trajectory

from .episode_checks import EpisodeChecker, Script
from .findings import short

FAREWELL = Message("assistant", "Thank you, goodbye.")
HARMONY = "<|channel|>analysis<|message|>{thought}<|end|><|start|>assistant<|channel|>final<|message|>{speech}"
WAYS: Sequence[str] = (
    "<think>\n{thought}\n</think>\n\n{speech}",
    "{speech}\n[THINK]{thought}[/THINK]",
    "<think>\n\n</think>\n\n{speech}<think>{thought}",
    HARMONY,
    "{thought}</think>\n{speech}",
)
"""How models write thoughts: before and after the speech, empty, never closed, and opened by the prompt."""


def with_thought(message: Message, thought: str, way: int) -> Message:
    """Return the message with a thought. `way` cycles through WAYS and, last, the separate field `reasoning`."""
    if way % (len(WAYS) + 1) == len(WAYS) or not isinstance(message.content, str):
        return replace(message, reasoning=thought)
    text = WAYS[way % (len(WAYS) + 1)].format(thought=thought, speech=message.content)
    return replace(message, content=text)


def with_thoughts(trajectory: Trajectory) -> Trajectory:
    """Return a record of the same episode, by an agent that thought of the truth and of other calls in each turn."""
    thought = decoy(trajectory.task, [turn.message for turn in trajectory.turns])
    turns = [replace(t, message=with_thought(t.message, thought, t.index)) for t in trajectory.turns]
    return replace(trajectory, turns=turns)


def decoy(task: Task, messages: Sequence[Message]) -> str:
    """Return a thought that pays off if anything reads it: everything that the agent says, the truth, and a call."""
    call = '<tool_call>{"name": "submit", "arguments": {}}</tool_call>'
    words = [message.text for message in messages if message.text]
    return "\n".join([*words, json.dumps(task.truth, default=str), "I quit.", call])


async def check_thoughts(stage: EpisodeChecker, solution: Trajectory) -> None:
    """Replay an episode with and without thoughts; then both again, with a farewell for each message without calls.

    The thoughts hold everything that the agent said in the episode, so an environment, a user or a reward that reads
    thoughts gives another result, and is reported.
    """
    spoken = [turn.message for turn in solution.turns]
    mute = [message if message.calls else FAREWELL for message in spoken]
    thought = decoy(solution.task, spoken)
    for messages in [spoken, mute] if mute != spoken else [spoken]:
        plain = await stage.play([solution.task], _reciter(messages), "an agent that recites a solution")
        thinking = [with_thought(message, thought, way) for way, message in enumerate(messages)]
        thoughtful = await stage.play([solution.task], _reciter(thinking), "an agent that recites it and thinks")
        for first, second in zip(plain, thoughtful, strict=False):
            if difference := _difference(_came_of(first), _came_of(second)):
                stage.subject.findings.add(
                    f"What the agent thinks changes what comes of {solution.task.id!r}: {difference}. Read "
                    "`message.text`, which is what it says; `content` and `written` hold its thoughts too."
                )


def _reciter(messages: Sequence[Message]) -> Callable[[Task], Script]:
    def script(conversation: Sequence[Message]) -> Message:
        turn = sum(message.role == "assistant" for message in conversation)
        return messages[turn] if turn < len(messages) else FAREWELL

    return lambda task: script


def _came_of(trajectory: Trajectory) -> list[Any]:
    turns = [
        [[r.status for r in turn.results], [m.text for m in turn.replies], turn.rewards] for turn in trajectory.turns
    ]
    return [*turns, trajectory.stop_reason, dict(trajectory.outcome)]


def _difference(first: Sequence[Any], second: Sequence[Any]) -> str:
    for plain, thoughtful in zip(first, second, strict=False):
        if plain != thoughtful:
            return f"{short(plain, 200)} without, {short(thoughtful, 200)} with thoughts"
    return "" if len(first) == len(second) else f"{len(first) - 2} turns without, {len(second) - 2} with thoughts"
