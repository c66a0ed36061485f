"""Train on the tasks that a recorded run solved sometimes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agentgym import Task, TaskError
from agentgym.evaluation import select_episodes
from agentgym.options import Share
from agentgym.storage import Ledger, RunFolder
from agentgym.text import counted
from agentgym.training.samplers import Shuffled


class PassRate(Shuffled):
    """Draws the tasks whose success in a recorded run lies within bounds, shuffled.

    Let the starting model play every training task several times (`agentgym rollout ... --split train --samples 8 --out
    runs/start`), and name this run. Tasks that it did not play are left out. The success is not measured again while
    the policy changes; `learnable` tracks it.

    Args:
        tasks: to draw from.
        seed: seed of the shuffling.
        run: the folder of the run. label: only episodes whose id begins with it count.
        low, high: the bounds, both included.
    Raises: TaskError if the folder holds no episode of these tasks, or no task lies within the bounds.
    """

    def __init__(
        self,
        tasks: Sequence[Task],
        seed: int = 0,
        *,
        run: str,
        label: str = "",
        low: Share = 0.1,
        high: Share = 0.9,
    ) -> None:
        rates = pass_rates(tasks, run, label)
        known = [task for task in tasks if task.id in rates]
        if not known:
            raise TaskError(
                f"train.sampler: run = {run!r} has no judged episode of the present training tasks. Name a run that "
                "played them, for example by `agentgym rollout --split train --samples 8`."
            )
        selected = [task for task in known if low <= rates[task.id] <= high]
        if not selected:
            raise TaskError(
                f"train.sampler: {run!r} played {counted(len(known), 'task')}, but solved none of them in {low:g} "
                f"to {high:g} of its episodes. Lower `low`, or raise `high`."
            )
        super().__init__("pass_rate", selected, seed)
        self._known = {task.id: task for task in tasks}

    def state(self) -> dict[str, Any]:
        """Return the drawn tasks, because the recorded run may change or vanish before this run is resumed."""
        return {"tasks": [task.id for task in self._tasks]}

    def load(self, state: Mapping[str, Any]) -> None:
        """Continue with the tasks of a `state`. Raises: TaskError if it names an unknown task."""
        if unknown := [name for name in state["tasks"] if name not in self._known]:
            raise TaskError(
                f"The sampler's saved state is of other tasks: the task set has no task {unknown[0]!r}. Resume with "
                "the task set that the run was started with."
            )
        self._tasks = [self._known[name] for name in state["tasks"]]


def pass_rates(tasks: Sequence[Task], run: str, label: str = "") -> dict[str, float]:
    """Return the mean success of each task in a run's valid episodes, ignoring different tasks with the same id.

    Raises: TaskError if there is no such run.
    """
    if not RunFolder.is_run(Path(run)) or not RunFolder(run).ledger.is_file():
        raise TaskError(f"train.sampler: run = {run!r} is not a run folder with a ledger. Check the path.")
    successes: dict[str, list[float]] = {}
    ledger = Ledger(RunFolder(run).ledger)
    try:
        for trajectory in select_episodes(tasks, ledger.trajectories(label)):
            if trajectory.valid and trajectory.success is not None:
                successes.setdefault(trajectory.task.id, []).append(trajectory.success)
    finally:
        ledger.close()
    return {task: sum(values) / len(values) for task, values in successes.items()}
