"""The instruction that a reinforcement has found to be the best, for the stages after it."""

from __future__ import annotations

from agentgym.storage.run_folder import RunFolder
from agentgym.training.gatherers import WrappedGatherer
from agentgym.training.stages.context import RunContext

INSTRUCTIONS_FILE = "instructions.json"


def keep_best(context: RunContext, gatherer: WrappedGatherer) -> None:
    """Write the instructions of a stage that has tried some, and print the best."""
    if (wrapper := gatherer.tries_instructions) is None:
        return
    best = wrapper.best_instruction
    context.folder.write_json(INSTRUCTIONS_FILE, {"best": best, **wrapper.state()})
    line = f"{context.folder.phase('train')}: later stages play with the best instruction, {best!r}. Elsewhere, "
    context.console.print(f"{line}give it by --instruction.", markup=False, highlight=False, soft_wrap=True)


def best_instruction(folder: RunFolder) -> str | None:
    """What a stage with this folder has found; None if it has tried none."""
    if not (folder.path / INSTRUCTIONS_FILE).is_file():
        return None
    best: str = folder.read_json(INSTRUCTIONS_FILE)["best"]
    return best
