"""Play groups with instructions drawn from a population, the successful ones more often, and let a policy replace the
worst.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from typing_extensions import override

from agentgym import CreditError, Policy, Task, load, seed_of
from agentgym.options import Count, Positive, Share
from agentgym.storage import RunFolder
from agentgym.task import Origin
from agentgym.training import TrainingRun
from agentgym.training.gatherers import GatheredGroup, Gatherer, GathererWrapper, StepRequest

from .writing import WRITING, attempt_of, question_of, words_of, write

FILE = "instructions.json"
"""The file in a stage's folder with the instructions that the stage has tried."""
LEARNER = "learner"
"""The name of the writer that is the policy itself."""
MAX_FAILURES, MAX_FAILURE_CHARS = 3, 600
REQUEST = (
    "An instruction to an agent:\n{worst}\n\nWith it, the agent succeeds in {worst_success:.0%} of its tasks. Some at "
    "which it failed:\n\n{failures}\n\nWith this instruction it succeeds in {best_success:.0%}:\n{best}\n\nWrite a "
    "better instruction, for all tasks of this kind. Write its words alone."
)


@dataclass(slots=True)
class Instruction:
    """An instruction of the population.

    Attributes:
        number: its number among all instructions so far, from 0.
        success: a running mean over groups; None before the first. groups: how many were played with it.
        failures: recent episodes that failed with it, as text.
    """

    number: int
    text: str
    success: float | None = None
    groups: int = 0
    failures: list[str] = field(default_factory=list)


class Instructions(GathererWrapper):
    """Plays each group with an instruction drawn from a population, and renews the population during training.

    An instruction precedes the task, as `[episode] instruction` does, which it replaces. An instruction with mean group
    success s is drawn with probability proportional to exp(s / temperature); one that was never played counts as the
    best. Every `every` steps a policy writes a replacement for the worst, given this instruction, its success, tasks
    that failed with it, and the best instruction. A new text is discarded if it is empty, truncated by a budget, or
    already known.

    All episodes of a group have the same instruction, so within a group an estimator's bias class holds for the task
    with its instruction. Validations, and all later stages, play with the best instruction so far.

    Args:
        population: the instructions to begin with, at least two.
        temperature: of drawing, in units of success.
        every: steps between two replacements.
        memory: weight of the earlier mean after each group; the newest group has weight 1 - memory.
        writer: "learner", the policy itself, or a registered policy with its `options`, such as "chat_api".
    Source: INSPO, Zhou et al. 2025, arXiv:2512.01945: a population sampled by a softmax, pruned, and extended by
        reflection. Written from descriptions, not checked against its code; the constants are ours. There, new
        instructions are tried before they join; here, they join and are tried first.
    """

    def __init__(
        self,
        inner: Gatherer,
        *,
        population: list[str],
        temperature: Positive = 0.1,
        every: Count = 10,
        memory: Share = 0.8,
        writer: str = LEARNER,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        texts = [text.strip() for text in population]
        if len(texts) < 2 or not all(texts) or len(set(texts)) < len(texts):
            raise CreditError(
                f"instructions(population={population}) is not valid: give at least two different texts that are not "
                "empty."
            )
        super().__init__(inner)
        self._temperature, self._every, self._memory = temperature, every, memory
        self._writer: Policy | None = None
        if writer != LEARNER:
            try:
                self._writer = load("policies", writer)(**(options or {}))
            except TypeError as error:
                raise CreditError(
                    f"instructions: the policy {writer!r} does not accept these options: {error}"
                ) from error
        self.population = [Instruction(number, text) for number, text in enumerate(texts)]
        self.former: list[Instruction] = []
        self._steps = 0

    def __call__(self, step: StepRequest) -> list[GatheredGroup]:
        """Play the groups of a step: first all groups of the first instruction, then those of the next."""
        draws = random.Random(seed_of(Origin.INSTRUCTIONS, step.label))
        weights = self._weights()
        chosen = draws.choices(self.population, weights, k=len(step.tasks))
        groups: list[GatheredGroup] = []
        for position, instruction in enumerate(self.population):
            if tasks := [task for task, own in zip(step.tasks, chosen, strict=True) if own is instruction]:
                own_groups = self.inner(self._request(step, instruction, tasks, position))
                self._note(instruction, own_groups)
                groups += own_groups
        self._steps += 1
        return [*groups, *self._renew(step)] if self._steps % self._every == 0 else groups

    @override
    def measurement_changes(self) -> Mapping[str, Any]:
        return {"instruction": self.best_instruction}

    @override
    def finish(self, run: TrainingRun) -> None:
        best = self.best_instruction
        run.folder.write_json(FILE, {"best": best, **self.state()})
        line = f"{run.folder.phase('train')}: later stages play with the best instruction, {best!r}. Elsewhere, "
        run.show(f"{line}give it by --instruction.")

    @classmethod
    @override
    def changes_left_in(cls, folder: RunFolder) -> Mapping[str, Any]:
        return {"instruction": folder.read_json(FILE)["best"]} if (folder.path / FILE).is_file() else {}

    @property
    def best_instruction(self) -> str:
        """Return the best instruction's text so far; before any was played, the first one's."""
        return max(self.population, key=_success_of).text

    def _weights(self) -> list[float]:
        known = [own.success for own in self.population if own.success is not None]
        best = max(known, default=1.0)
        values = [best if own.success is None else own.success for own in self.population]
        return [math.exp((value - best) / self._temperature) for value in values]

    def _request(
        self, step: StepRequest, instruction: Instruction, tasks: Sequence[Task], position: int
    ) -> StepRequest:
        size = len(self.population)

        def more_tasks(count: int, further: int) -> Sequence[Task]:
            """Return tasks other than those drawn for another instruction."""
            return step.more_tasks(count, (further - 1) * size + position + 1)

        label = f"{step.label}-instruction{instruction.number}"
        changed = replace(step, tasks=tasks, label=label, more_tasks=more_tasks)
        return changed.with_config(instruction=instruction.text)

    def _note(self, instruction: Instruction, groups: Sequence[GatheredGroup]) -> None:
        """Update an instruction with the results of its groups."""
        for group in groups:
            unaided = [episode for episode in group.unaided if episode.valid]
            episodes = [episode for episode in unaided if episode.provenance.instruction == instruction.text]
            if not episodes:
                continue
            success = float(np.mean([episode.success_or_reward for episode in episodes]))
            before = success if instruction.success is None else instruction.success
            instruction.success = self._memory * before + (1 - self._memory) * success
            instruction.groups += 1
            if failed := next((episode for episode in episodes if episode.success_or_reward <= 0), None):
                task, attempt = question_of(failed.task), attempt_of(failed)
                text = f"Task: {task[:MAX_FAILURE_CHARS]}\nWhat it did: {attempt[-MAX_FAILURE_CHARS:]}"
                instruction.failures = [*instruction.failures, text][-MAX_FAILURES:]

    def _renew(self, step: StepRequest) -> list[GatheredGroup]:
        """Let a policy replace the worst instruction. Returns: the writing episodes, which are not trained on."""
        tried = [own for own in self.population if own.success is not None]
        if len(tried) < 2:
            return []
        worst, best = min(tried, key=_success_of), max(tried, key=_success_of)
        task = Task(
            f"{Origin.INSTRUCTIONS}~{self._steps}",
            WRITING,
            REQUEST.format(
                worst=worst.text,
                worst_success=worst.success,
                failures="\n\n".join(worst.failures) or "None lately.",
                best=best.text,
                best_success=best.success,
            ),
            origin=Origin(Origin.INSTRUCTIONS),
        )
        groups = write(replace(step, assist=None), [task], 1, label="instruction", writer=self._writer)
        text = words_of(groups[0].trained[0]) if groups else ""
        if text and text not in [own.text for own in (*self.population, *self.former)]:
            position = self.population.index(worst)
            self.population[position] = Instruction(len(self.population) + len(self.former), text)
            self.former.append(worst)
        return [GatheredGroup([], group.episodes) for group in groups]

    @override
    def state(self) -> dict[str, Any]:
        return {
            "steps": self._steps,
            "population": [asdict(own) for own in self.population],
            "former": [asdict(own) for own in self.former],
        }

    @override
    def load(self, state: Mapping[str, Any]) -> None:
        self._steps = state["steps"]
        self.population = [Instruction(**row) for row in state["population"]]
        self.former = [Instruction(**row) for row in state["former"]]


def _success_of(instruction: Instruction) -> float:
    return -1.0 if instruction.success is None else instruction.success
