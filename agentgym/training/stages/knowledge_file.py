"""What the episodes of a reinforcement have taught, for the stages after it."""

from __future__ import annotations

from agentgym.knowledge import KnowledgeStore
from agentgym.storage.run_folder import RunFolder
from agentgym.training.gatherers import WrappedGatherer
from agentgym.training.stages.context import RunContext

KNOWLEDGE_FILE = "knowledge.json"


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
