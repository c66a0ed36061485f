"""How the groups of a training step come about; `train.gather` names wrappers of the registered kind `gatherers`."""

from __future__ import annotations

from agentgym.training.gatherers.contract import GatheredGroup, Gatherer, make_gatherer, play_groups

__all__ = ["GatheredGroup", "Gatherer", "make_gatherer", "play_groups"]
