"""What a run says of its progress: whole at every width of a terminal, and in the log of a job without one."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from agentgym.rollout.progress import PhaseProgress

NOTE = "success 0.594  reward 0.916  calls ok 0.994  turns 2.750"


def three_steps(console, phase="reinforcement", total=1000, notes=True):
    """Three steps of a phase, at one step a second."""
    seconds = iter(range(1000))
    progress = PhaseProgress(console)
    progress.get_time = lambda: float(next(seconds))
    bar = progress.add_task(phase, total=total, line_a_note=notes)
    for step in range(1, 4):
        progress.update(bar, completed=step)
        if notes:
            progress.update(bar, note=NOTE)
    return progress


@pytest.mark.parametrize("width", [60, 80, 100, 140, 240])
def test_at_every_width_the_count_the_time_left_and_the_whole_note_are_there(width):
    console = Console(file=io.StringIO(), force_terminal=True, width=width, color_system=None)
    progress = three_steps(console)
    for renderable in progress.get_renderables():
        console.print(renderable)
    text = " ".join(console.file.getvalue().split())
    assert "reinforcement" in text
    assert "3/1000" in text
    assert len(re.findall(r"\d:\d\d:\d\d", text)) == 2  # how long it took, and how long it will take
    assert NOTE.split() == text.split()[-len(NOTE.split()) :]


def test_without_a_terminal_each_step_is_a_line_with_step_total_rate_and_time_left():
    console = Console(file=io.StringIO(), width=80)
    three_steps(console)
    lines = console.file.getvalue().splitlines()
    assert len(lines) == 3
    assert re.fullmatch(rf"reinforcement 3/1000, .* (s each|a second), \d:\d\d:\d\d left: {re.escape(NOTE)}", lines[-1])


def test_without_a_terminal_a_phase_of_many_episodes_writes_a_line_for_every_tenth():
    console = Console(file=io.StringIO(), width=80)
    progress = PhaseProgress(console)
    bar = progress.add_task("demonstrations", total=1000)
    for _ in range(1000):
        progress.advance(bar)
    lines = console.file.getvalue().splitlines()
    assert [line.partition(",")[0] for line in lines] == [
        f"demonstrations {n}/1000" for n in (1, 100, 200, 300, 400, 500, 600, 700, 800, 900, 1000)
    ]
