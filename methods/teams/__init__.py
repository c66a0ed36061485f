"""Teams: several roles in one episode, each with its own contexts.

delegation.py  with_delegation: a planner hands tasks to executors
pipeline.py    with_pipeline: roles one after the other, each reading earlier roles' messages
graph.py       with_team_graph: a team that the agent builds, and which then does the task
routing.py     ModelPool, with_routing: other models as a tool, at a price
"""

from .delegation import Delegation, DelegationLimits, with_delegation
from .graph import BUILDER, TeamGraph, TeamLimits, TeamRole, with_team_graph
from .pipeline import Pipeline, PipelineStage, with_pipeline
from .routing import ModelPool, PricedModel, Routing, with_routing

__all__ = [
    "BUILDER",
    "Delegation",
    "DelegationLimits",
    "ModelPool",
    "Pipeline",
    "PipelineStage",
    "PricedModel",
    "Routing",
    "TeamGraph",
    "TeamLimits",
    "TeamRole",
    "with_delegation",
    "with_pipeline",
    "with_routing",
    "with_team_graph",
]
