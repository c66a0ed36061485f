"""The run folder of a command that plays, and what the episodes under its labels were played with.

Resuming never mixes two experiments.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentgym.errors import EvaluationError
from agentgym.storage.run_folder import RunFolder

if TYPE_CHECKING:
    from agentgym.rollout import RolloutConfig
    from agentgym.storage.ledger import Ledger
    from agentgym.task import TaskSet


@contextmanager
def opened_ledger(
    folder: Path | None, config: RolloutConfig, label: str, identity: dict[str, Any]
) -> Iterator[Ledger | None]:
    """The ledger of the run folder, None without a folder. The cluster is connected to before anything is written.

    Raises: AgentGymError where the cluster cannot be reached; EvaluationError as `check` does.
    """
    from agentgym.rollout.engine import ConnectingEngine
    from agentgym.storage.ledger import Ledger

    if isinstance(config.engine, ConnectingEngine):
        config.engine.connect()
    if folder is None:
        yield None
        return
    run_folder = RunFolder(folder).create()
    with closing(Ledger(run_folder.ledger)) as ledger:
        check(run_folder, label, identity)
        yield ledger


def identity_of(config: RolloutConfig, task_set: TaskSet, name: str, split: str, policy: str) -> dict[str, Any]:
    """Everything on which the episodes depend, as plain data. Budgets at their default are left out.

    The keys are those in folders of earlier versions; `max_tokens` is the budget of a turn.
    """
    from agentgym.rollout import Budgets
    from agentgym.rollout.hooks import recorded_options

    identity: dict[str, Any] = {
        "task_set": name,
        "split": split,
        "fingerprint": task_set.fingerprint(),
        "policy": policy,
        "seed": config.seed,
        "temperature": config.temperature,
        "max_turns": config.budgets.max_turns,
        "max_tokens": config.budgets.max_turn_tokens,
        "reward": config.reward,
    }
    default = Budgets()
    for key in ("max_episode_tokens", "max_calls", "time_s", "max_void_turns"):
        if (value := getattr(config.budgets, key)) != getattr(default, key):
            identity[key] = value
    if config.instruction:
        identity["instruction"] = config.instruction
    if config.knowledge is not None:
        identity["knowledge"] = config.knowledge.fingerprint()
    identity |= recorded_options(config.episode_hooks)
    if isinstance(config.environment, str) and "://" not in config.environment:  # where it runs makes no difference
        identity["environment"] = config.environment
    return identity | ({"top_p": config.top_p} if config.top_p != 1.0 else {})


def check(folder: RunFolder, label: str, identity: dict[str, Any]) -> None:
    """Write the identity of a label at its first use; afterwards compare with what was written.

    Raises: EvaluationError naming what differs.
    """
    file = f"asked/{label}.json"
    if not (folder.path / file).is_file():
        folder.write_json(file, identity)
        return
    before = folder.read_json(file)
    different = [key for key in {**before, **identity} if before.get(key) != identity.get(key)]
    if different:
        changes = "; ".join(f"{key} was {before.get(key)!r}, now {identity.get(key)!r}" for key in different)
        raise EvaluationError(
            f"{folder.path} already holds episodes under {label!r} that were played differently: {changes}. "
            "Choose another --label or --out."
        )
