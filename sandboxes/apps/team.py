"""`agentgym/apps-team-v1`: a planner, and executors who use the apps."""

from __future__ import annotations

from agentgym.methods.teams import Delegation

from .environment import Apps


class AppsTeam(Delegation):
    """`agentgym/apps-v1` for a planner and executors (docs/actors.md). In memory, nothing is isolated.

    The planner has `delegate` and `finish`, executors have the other tools and `report`. Task parameters: as for
    `agentgym/apps-v1`.
    """

    reward = "state_changes"
    task_set = "apps/team-v1"

    def __init__(self) -> None:
        super().__init__(Apps())
