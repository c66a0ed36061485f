"""Sends a run's metrics and some of its episodes to trackers, which are registered under the kind `trackers`.

Every row of metrics.jsonl, from every stage, is sent as `phase/metric`: see agentgym.bridges.trackers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from agentgym import registry
from agentgym._imports import check_package
from agentgym.errors import MissingExtraError, RecipeError, UnknownNameError
from agentgym.trajectory.record import Trajectory


class Tracker(Protocol):
    """A service or file format that shows the metrics of runs.

    It is made with the run's folder, the run's name and the recipe as data. A class may name the `package` that it
    needs, and the `extra` of agentgym that installs it, which are checked before a run. A tracker that shows
    conversations has a method `log_episodes(step, phase, episodes)`, called after `log` for a step that has episodes.
    """

    def log(self, step: int, phase: str, metrics: Mapping[str, float]) -> None:
        """Send one row. Raises: its package's errors."""
        ...

    def close(self, *, failed: bool) -> None:
        """Flush, and end the tracker's run. `failed`: mark it as failed, if the tracker supports this."""
        ...


def check_trackers(names: Sequence[str]) -> None:
    """Raise RecipeError for a tracker that is unknown or not installed, with the command that installs it."""
    for name in names:
        try:
            tracker = registry.load("trackers", name)
            if package := getattr(tracker, "package", None):
                check_package(package, tracker.extra, f"track = [{name!r}]")
        except UnknownNameError as error:
            raise RecipeError(f"track = [{name!r}] cannot be used. {error}") from error
        except MissingExtraError as error:
            raise RecipeError(str(error)) from error


@contextmanager
def tracked(
    names: Sequence[str],
    folder: Path,
    config: Mapping[str, Any],
    warn: Callable[[str], None],
    episodes_of: Callable[[str], Sequence[Trajectory]] = lambda phase: (),
) -> Iterator[Callable[[int, str, Mapping[str, float]], None]]:
    """Open trackers for the duration of a run. A failing tracker is reported once, and the run continues without it.

    Args:
        names: registered trackers. folder: the run folder, whose name is the run's name. config: the run's recipe.
        warn: shows a message. episodes_of: returns the episodes to show of a phase's newest step.
    Yields: a function that logs a row: the step, the phase, and the metrics by name.
    """
    trackers: dict[str, Tracker] = {}

    def guarded(name: str, work: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return work(*arguments)
        except Exception as error:  # noqa: BLE001  a service that is down must not end a training
            trackers.pop(name, None)
            warn(f"The tracker {name} failed and gets no more metrics of this run: {type(error).__name__}: {error}")
            return None

    for name in names:
        if (tracker := guarded(name, registry.load("trackers", name), folder, folder.name, config)) is not None:
            trackers[name] = tracker

    def log(step: int, phase: str, metrics: Mapping[str, float]) -> None:
        for name, tracker in [*trackers.items()]:
            guarded(name, tracker.log, step, phase, metrics)
        shows = {name: show for name, tracker in trackers.items() if (show := getattr(tracker, "log_episodes", None))}
        if shows and (episodes := episodes_of(phase)):
            for name, show in shows.items():
                guarded(name, show, step, phase, episodes)

    failed = True
    try:
        yield log
        failed = False
    finally:
        for name, tracker in [*trackers.items()]:
            guarded(name, partial(tracker.close, failed=failed))
