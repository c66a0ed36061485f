"""Let a policy write a text during a step, such as a task or an instruction."""

from __future__ import annotations

from collections.abc import Sequence

from agentgym import EpisodesFailed, Policy, Reward, Task, Trajectory
from agentgym.training.gatherers import GatheredGroup, StepRequest

WRITING = "agentgym/step-v1"
"""The environment in which something is written: the agent answers, and nothing is run."""
MAX_CHARS = 4000
"""The largest number of characters of a written text, and of a task, an attempt or a critique in another prompt."""


def write(
    step: StepRequest, tasks: Sequence[Task], group_size: int, *, label: str, writer: Policy | None = None
) -> list[GatheredGroup]:
    """Play tasks that ask for a text. No reward judges these episodes.

    Args:
        tasks: tasks of the environment WRITING, which ask for the text.
        label: appended to the step's label.
        writer: the writing policy; by default the step's own policy.
    Returns: a group for each task; an empty list if every episode failed.
    """
    rollouts = step.rollouts.with_config(
        environment=WRITING,
        environment_options={},
        source_options={},
        reward=Reward(),
        attempts=None,
        stop_if=(),
        instruction="",
    )
    try:
        episodes = rollouts.play(writer or step.policy, tasks, label=f"{step.label}-{label}", group_size=group_size)
    except EpisodesFailed:  # Only these extra episodes failed. The step still has its own, so skip the extra ones.
        return []
    return GatheredGroup.split(episodes, group_size)


def words_of(writer: Trajectory) -> str:
    """Return the written text; empty if there is none, a budget truncated it, or it is longer than MAX_CHARS."""
    if not writer.valid:
        return ""
    turn = writer.turns[-1]
    text = turn.calls[-1].arguments.get("text") if turn.calls else turn.message.text
    cut = turn.finish_reason == "length" or writer.stop_reason is None or writer.stop_reason.truncated
    return "" if cut or not isinstance(text, str) or len(text) > MAX_CHARS else text.strip()


def attempt_of(episode: Trajectory) -> str:
    """Return the last MAX_CHARS of what the agent wrote and called in an episode."""
    lines = []
    for turn in episode.turns:
        lines += [turn.message.text] if turn.message.text else []
        lines += [call.in_one_line() for call in turn.calls]
    return "\n".join(lines)[-MAX_CHARS:]


def question_of(task: Task) -> str:
    """Return the first MAX_CHARS of a task's text."""
    return "\n".join(message.text for message in task.opening())[:MAX_CHARS]
