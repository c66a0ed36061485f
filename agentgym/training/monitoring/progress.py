"""The progress of a run's phases: bars on a terminal, lines of text in a log file."""

from __future__ import annotations

from collections.abc import Iterable
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

LINES = 10
"""Number of lines that a phase writes into a log file, unless the phase writes one line per note."""
_OTHER_COLUMNS = 54  # width of a bar's other columns: description, count, elapsed and remaining time


class PhaseProgress(Progress):
    """A bar with count, time and time left for each phase; its note has a separate line, so nothing is truncated.

    Outside a terminal, each phase writes lines instead: at its first and last step and every tenth part, or, if added
    with `add_task(..., line_a_note=True)`, one line per note.
    """

    def __init__(self, console: Console) -> None:
        bar_width = min(28, console.width - _OTHER_COLUMNS)
        columns: list[ProgressColumn] = [SpinnerColumn(), TextColumn("{task.description:<16}")]
        columns += [BarColumn(bar_width=bar_width)] if bar_width >= 4 else []
        columns += [MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn()]
        self._lines = not console.is_terminal
        super().__init__(*columns, console=console, disable=self._lines, speed_estimate_period=600)

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
            if note := task.fields.get("note"):
                yield Padding(Text(note, style="dim"), (0, 0, 0, 2))

    def _write_line(self, task_id: TaskID, before: float, *, has_note: bool) -> None:
        task = self.tasks[self.task_ids.index(task_id)]
        if not self._lines or not task.completed:
            return
        part = max(1.0, (task.total or 1.0) / LINES)
        reached_part = before == 0 or before // part < task.completed // part
        if has_note if task.fields.get("line_a_note") else (reached_part and task.completed > before):
            self.console.print(line_of(task), markup=False, highlight=False, soft_wrap=True)


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
