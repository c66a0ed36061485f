"""The progress of a run's phases: bars on a terminal, lines of text in a log file.

From the first seconds on, both say how many turns and tokens the episodes of the phase have had so far.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from contextlib import ExitStack
from datetime import timedelta
from typing import Any

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from agentgym.rollout.activity import Activity, Work, counted_in

FIRST_S = 5.0
"""The seconds before a log file's first line on the activity of a phase. The wait doubles with each further line."""
LIVE_S = 1.0
"""The seconds between two updates of the activity on a terminal."""
LINES = 10
"""Number of lines that a phase writes into a log file, unless the phase writes one line per note."""
_OTHER_COLUMNS = 54  # width of a bar's other columns: description, count, elapsed and remaining time


class PhaseProgress(Progress):
    """A bar with count, time and time left for each phase; its note has a separate line, so nothing is truncated.

    Outside a terminal, each phase writes lines instead: at its first and last step and after every tenth of its steps;
    or one line per note, if the phase was added with `add_task(..., line_a_note=True)`. Further lines in between say
    what the episodes do.

    Args:
        first_s: seconds before the first of the lines on the episodes.
    """

    def __init__(self, console: Console, *, first_s: float = FIRST_S) -> None:
        bar_width = min(28, console.width - _OTHER_COLUMNS)
        columns: list[ProgressColumn] = [SpinnerColumn(), TextColumn("{task.description:<16}")]
        columns += [BarColumn(bar_width=bar_width)] if bar_width >= 4 else []
        columns += [MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn()]
        self._lines = not console.is_terminal
        self._first_s, self._activity, self._began_at, self._work_before = first_s, Activity(), 0.0, Work()
        self._stopped, self._open = threading.Event(), ExitStack()
        super().__init__(*columns, console=console, disable=self._lines, speed_estimate_period=600)

    def start(self) -> None:
        """Show the progress from now on, and count the episodes that are played."""
        super().start()
        self._open.enter_context(counted_in(self._activity))
        self._stopped.clear()
        thread = threading.Thread(target=self._beat, name="progress", daemon=True)
        thread.start()
        self._open.callback(thread.join)
        self._open.callback(self._stopped.set)

    def stop(self) -> None:
        """Stop showing the progress."""
        self._open.close()
        super().stop()

    def add_task(self, *args: Any, **options: Any) -> TaskID:
        """Add a phase as rich does; the work of the episodes is counted anew."""
        self._began_at, self._work_before = self.get_time(), self._activity.work
        return super().add_task(*args, **options)

    def update(self, task_id: TaskID, **changes: Any) -> None:
        """Update a phase, like rich's method; `note` is a text about the phase's current state."""
        before = self.tasks[self.task_ids.index(task_id)].completed
        super().update(task_id, **changes)
        self._write_line(task_id, before, has_note="note" in changes)

    def advance(self, task_id: TaskID, advance: float = 1) -> None:
        """Advance a phase, like rich's method."""
        before = self.tasks[self.task_ids.index(task_id)].completed
        super().advance(task_id, advance)
        self._write_line(task_id, before, has_note=False)

    def get_renderables(self) -> Iterable[RenderableType]:
        for task in self.tasks:
            yield self.make_tasks_table([task])
            for text in (task.fields.get("note"), task.fields.get("activity")):
                if text:
                    yield Padding(Text(text, style="dim"), (0, 0, 0, 2))

    def _beat(self) -> None:
        """Say what the episodes of the unfinished phase do: on a terminal below its bar, in a log file in lines."""
        phase, next_line_s = None, self._first_s
        while not self._stopped.wait(min(LIVE_S, self._first_s)):
            task = next((task for task in reversed(self.tasks) if not task.finished), None)
            if task is None:
                continue
            if task.id != phase:
                phase, next_line_s = task.id, self._first_s
            seconds = self.get_time() - self._began_at
            activity = self._activity.work.since(self._work_before).describe(seconds)
            if not self._lines:
                super().update(task.id, activity=activity)
            elif seconds >= next_line_s:
                next_line_s = 2 * next_line_s + self._first_s
                self._print(f"{line_of(task)}; {activity + ', ' if activity else ''}{seconds:.0f} s so far")

    def _write_line(self, task_id: TaskID, before: float, *, has_note: bool) -> None:
        task = self.tasks[self.task_ids.index(task_id)]
        if not self._lines or not task.completed:
            return
        part = max(1.0, (task.total or 1.0) / LINES)
        reached_part = before == 0 or before // part < task.completed // part
        if has_note if task.fields.get("line_a_note") else (reached_part and task.completed > before):
            self._print(line_of(task))

    def _print(self, line: str) -> None:
        self.console.print(line, markup=False, highlight=False, soft_wrap=True)


def line_of(task: Task) -> str:
    """Return a line such as "reinforcement 12/100, 0.4 a second, 0:03:39 left: success 0.594"."""
    parts = [f"{task.description} {task.completed:.0f}" + ("" if task.total is None else f"/{task.total:.0f}")]
    # rich's speed is too high when many episodes end at once; the overall speed is too high in a resumed phase, which
    # counts earlier work as done now. The lower of the two avoids both errors.
    speeds = [task.speed, task.completed / task.elapsed if task.elapsed else None]
    speed = min((speed for speed in speeds if speed), default=None)
    if speed:
        parts.append(f"{speed:,.1f} a second" if speed >= 1 else f"{1 / speed:,.1f} s each")
        if task.total is not None:
            parts.append(f"{timedelta(seconds=round(max(0.0, task.total - task.completed) / speed))} left")
    note = task.fields.get("note")
    return ", ".join(parts) + (f": {note}" if note else "")
