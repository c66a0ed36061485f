"""The policy's mean entropy in earlier steps, by turn index."""

from __future__ import annotations

import json
from pathlib import Path

import torch

from agentgym.training.objectives import TokenBatch
from agentgym.training.processes import Processes

FILE = "entropies.json"


class EntropyHistory:
    """Running means of turn entropies by turn index, in which each step counts once.

    Add a step in parts with `add`, and end it with `end_step`.
    """

    def __init__(self) -> None:
        self._means: list[float] = []
        self._steps: list[int] = []  # number of steps in which each index occurred
        self._sums, self._counts = torch.zeros(0), torch.zeros(0)  # of the current step

    def usual(self) -> torch.Tensor | None:
        """Return (K,) mean entropies by turn index, in nats; None before the first step has ended."""
        if not self._means:
            return None
        known = [mean if steps else float("nan") for mean, steps in zip(self._means, self._steps, strict=True)]
        return torch.tensor(known)

    def add(self, tokens: TokenBatch) -> None:
        """Add the turns of some episodes of the current step."""
        means, taken = tokens.turn_means(tokens.entropies.detach().float())
        longer = max(means.shape[1] - len(self._sums), 0)
        sums = torch.nn.functional.pad(self._sums, (0, longer))
        counts = torch.nn.functional.pad(self._counts, (0, longer))
        sums[: means.shape[1]] += (means * taken).sum(0).cpu()
        counts[: means.shape[1]] += taken.sum(0).cpu()
        self._sums, self._counts = sums, counts

    def end_step(self, processes: Processes) -> None:
        """Add the current step, with the turns of all processes, to the running means."""
        of_all = processes.gather((self._sums.tolist(), self._counts.tolist()))
        for index in range(max(len(sums) for sums, _ in of_all)):
            count = sum(counts[index] for _, counts in of_all if index < len(counts))
            total = sum(sums[index] for sums, _ in of_all if index < len(sums))
            if index == len(self._means):
                self._means.append(0.0)
                self._steps.append(0)
            if count:
                self._steps[index] += 1
                self._means[index] += (total / count - self._means[index]) / self._steps[index]
        self._sums, self._counts = torch.zeros(0), torch.zeros(0)

    def save(self, folder: Path) -> None:
        """Write the history into a checkpoint."""
        (folder / FILE).write_text(json.dumps({"means": self._means, "steps": self._steps}), encoding="utf-8")

    def load(self, folder: Path) -> None:
        """Read the history from a checkpoint, if the file exists."""
        if (folder / FILE).is_file():
            state = json.loads((folder / FILE).read_text(encoding="utf-8"))
            self._means, self._steps = state["means"], state["steps"]
