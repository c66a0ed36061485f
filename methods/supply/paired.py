"""Draw the two phrasings of a question in one step, as the reward `co_reward` needs them."""

from __future__ import annotations

from collections.abc import Sequence

from agentgym import Task, TaskError
from agentgym.training.samplers import Shuffled


class Paired(Shuffled):
    """Draws pairs of tasks: two with the same `truth["pair"]`, shuffled anew whenever all pairs have been drawn.

    Tasks without a pair are never drawn. Of more than two phrasings, consecutive ones make pairs, and one may be left.

    Args:
        tasks: to draw from.
        seed: seed of the shuffling.
    Raises: TaskError without a pair.
    Source: Co-Reward, Zhang et al. 2025, arXiv:2508.00410, section 3.
    """

    def __init__(self, tasks: Sequence[Task], seed: int = 0) -> None:
        phrasings: dict[str, list[Task]] = {}
        for task in tasks:
            if (pair := task.pair) is not None:
                phrasings.setdefault(pair, []).append(task)
        pairs = [pair for same in phrasings.values() for pair in zip(same[::2], same[1::2], strict=False)]
        if not pairs:
            raise TaskError(
                f"train.sampler = 'paired': no two of the {len(tasks)} training tasks ask the same question in "
                "different words. Give both tasks of a pair the same truth['pair']."
            )
        self._others = {first.id: second for first, second in pairs}
        super().__init__("paired", [first for first, _ in pairs], seed)

    def draw(self, count: int, step: int, further: int = 0) -> list[Task]:
        """Draw the next `count` / 2 pairs. In a further draw of the same step, an odd count is rounded up.

        Raises: TaskError for a step of an odd number of tasks.
        """
        if count % 2 and not further:
            raise TaskError(f"paired draws two tasks at a time, so it cannot draw {count}. Give an even number.")
        firsts = super().draw((count + 1) // 2, step, further)
        return [task for first in firsts for task in (first, self._others[first.id])]
