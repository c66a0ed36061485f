"""What a stage leaves in its folder for those after it: the best instruction, knowledge, and training tasks."""

from __future__ import annotations

from agentgym.knowledge import KnowledgeStore
from agentgym.storage.run_folder import RunFolder
from agentgym.task import TaskSet
from agentgym.training.gatherers import WrappedGatherer
from agentgym.training.stages.context import RunContext

INSTRUCTIONS_FILE = "instructions.json"
KNOWLEDGE_FILE = "knowledge.json"
STEP_TASKS = "tasks.jsonl"


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


def keep_knowledge(context: RunContext, gatherer: WrappedGatherer) -> None:
    """Write what a stage has gathered knowledge of, and print how to use it elsewhere."""
    if (store := gatherer.knowledge) is None:
        return
    path = store.save(context.folder.path / KNOWLEDGE_FILE)
    line = f"{context.folder.phase('train')}: later stages are shown what is known of {len(store)} goals. Elsewhere, "
    context.console.print(f"{line}give it by --knowledge {path}.", markup=False, highlight=False, soft_wrap=True)


def knowledge_of(folder: RunFolder) -> KnowledgeStore | None:
    """What a stage with this folder has learnt; None if it has kept nothing. Raises: LedgerError."""
    path = folder.path / KNOWLEDGE_FILE
    return KnowledgeStore.load(path) if path.is_file() else None


def with_tasks_of(folder: RunFolder, task_set: TaskSet) -> TaskSet:
    """A task set with the training tasks that a stage left in its folder; it is validated and measured as before."""
    tasks = TaskSet.from_jsonl(folder.path / STEP_TASKS)["train"]
    splits = {"train": tasks, "validation": task_set["validation"], "held_out": task_set["held_out"]}
    if {task.environment for task in tasks} <= {task.environment for task in task_set["train"]}:
        return task_set.with_splits(splits)
    return TaskSet(task_set.name, splits)  # the set's players know nothing of these tasks
