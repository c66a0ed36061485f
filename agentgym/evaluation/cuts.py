"""Count the episodes that each budget ended and the messages that were truncated, and name the option to change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from agentgym.messages import StopReason
from agentgym.storage.failures import turn_failures
from agentgym.trajectory.record import Trajectory

BUDGETS = {
    StopReason.MAX_TURNS: "max_turns",
    StopReason.MAX_TOKENS: "max_episode_tokens",
    StopReason.MAX_CALLS: "max_calls",
    StopReason.TIME: "time_s",
    StopReason.REPEATED_VOID: "max_void_turns",
    StopReason.CONTEXT_FULL: "context",
}
"""The budget of each stop reason: a field of `agentgym.Budgets`, or `context` for the model's context window."""
MESSAGES = {"cut": "max_turn_tokens", "filtered": "filter"}
"""The cause of truncated messages, by kind of failure: a budget, or a server's content filter."""


_CAUSES = {
    "context": "the context of the model, which was full",
    "filter": "the content filter of the model's server",
}


def count_cuts(stops: Iterable[str], failures: Mapping[str, int]) -> dict[str, int]:
    """Count the episodes that each budget ended and the messages truncated per cause; counts of 0 are omitted.

    Args:
        stops: stop reasons of the episodes. failures: counts by kind over all episodes.
    """
    budgets: dict[str, str] = {reason.value: budget for reason, budget in BUDGETS.items()}
    counts = Counter(budgets[stop] for stop in stops if stop in budgets)
    counts += Counter({name: failures.get(kind, 0) for kind, name in MESSAGES.items()})
    return dict(counts.most_common())


def cuts_of(trajectories: Iterable[Trajectory]) -> dict[str, int]:
    """Return the result of `count_cuts` for some episodes."""
    stops: list[str] = []
    failures: Counter[str] = Counter()
    for trajectory in trajectories:
        stops.append(trajectory.stop_reason or "")
        failures.update(kind for kinds in turn_failures(trajectory.turns) for kind in kinds)
    return count_cuts(stops, failures)


def format_cuts(counts: Mapping[str, float], option: Callable[[str], str] = str, *, episodes: int | None = None) -> str:
    """Return one line with the truncated episodes and messages and the options to change; empty if there are none.

    For example "cut off: 12 of 40 episodes by --time-s; 3 messages by --max-turn-tokens".

    Args:
        counts: the result of `count_cuts`. option: converts a field of Budgets to the name of an option.
        episodes: the total number of episodes, shown with each count.
    """
    phrases = []
    for name, count in counts.items():
        if name in MESSAGES.values():
            what = "message" if count == 1 else "messages"
        else:
            what = "of 1 episode" if episodes == 1 else f"of {episodes} episodes"
            what = what if episodes else "episode" if count == 1 else "episodes"
        phrases.append(f"{count:.0f} {what} by {_CAUSES.get(name) or option(name)}")
    return "cut off: " + "; ".join(phrases) if phrases else ""


def command_option(name: str) -> str:
    """Return the command-line option that sets a budget, such as --max-turns."""
    return "--" + name.replace("_", "-")


def recipe_option(name: str) -> str:
    """Return the recipe key that sets a budget, such as episode.max_turns."""
    return f"episode.{name}"
