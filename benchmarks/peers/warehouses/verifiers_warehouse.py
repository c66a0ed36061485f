"""The warehouse as an environment of verifiers."""

import random

import verifiers
from datasets import Dataset


def check(boxes, shelf):
    if shelf not in boxes:
        raise ValueError(f"There is no shelf {shelf!r}.")


def look(boxes: dict, shelf: str) -> str:
    """Count the boxes on a shelf."""
    check(boxes, shelf)
    return str(boxes[shelf])


def move(boxes: dict, source: str, target: str, count: int) -> str:
    """Move boxes from one shelf to another."""
    check(boxes, source)
    check(boxes, target)
    if type(count) is not int or not 0 <= count <= boxes[source]:
        raise ValueError(f"{source} holds {boxes[source]} boxes.")
    boxes[source] -= count
    boxes[target] += count
    return "moved"


async def even(state) -> float:
    return float(len(set(state["boxes"].values())) == 1)


class Warehouse(verifiers.StatefulToolEnv):
    """Four shelves with boxes. An answer without a call ends the episode."""

    def __init__(self, seeds):
        rows = [{"question": "Make all shelves hold as many boxes.", "info": {"seed": seed}} for seed in seeds]
        rows = Dataset.from_list(rows)
        rubric = verifiers.Rubric(funcs=[even])
        super().__init__(tools=[], max_turns=16, dataset=rows, eval_dataset=rows, rubric=rubric)
        self.add_tool(look, args_to_skip=["boxes"])
        self.add_tool(move, args_to_skip=["boxes"])

    async def setup_state(self, state):
        draw = random.Random(state["info"]["seed"])
        state["boxes"] = {shelf: 4 + draw.randrange(-3, 4) for shelf in "abc"}
        state["boxes"]["d"] = 16 - sum(state["boxes"].values())
        await super().setup_state(state)

    def update_tool_args(self, tool_name, tool_args, messages, state, **options):
        return {**tool_args, "boxes": state["boxes"]}
