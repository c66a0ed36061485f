"""`team_size`: how large a team is, and the share of the team-building calls that were carried out. All of weight 0."""

from __future__ import annotations

from collections.abc import Mapping

from agentgym import Reward, Trajectory, Turn
from agentgym.methods.teams import BUILDER
from agentgym.reward import Components


class TeamSize(Reward):
    """Measures a team that the agent builds (`agentgym.methods.teams.with_team_graph`); a recipe gives weights.

    Turn component `team_action`, 0 to 1: the share of a building turn's calls that were carried out. Outcome
    components: `team_roles` and `team_edges`, the numbers of roles and edges; `team_tokens`, the tokens that the roles
    wrote, if tokens are counted. Give these weights below 0, behind a gate on `success`; otherwise the best policy
    builds no team.

    Source: MasHost, Yang et al. 2025, arXiv:2506.08507: rewards for single actions, and for saving roles and tokens.
    """

    weights: Mapping[str, float] = dict.fromkeys(("team_action", "team_roles", "team_edges", "team_tokens"), 0.0)

    def turn(self, turn: Turn, episode: Trajectory) -> Components:
        if turn.role != BUILDER or not turn.results:
            return {}
        return {"team_action": sum(result.ok for result in turn.results) / len(turn.results)}

    def outcome(self, episode: Trajectory) -> Components:
        """Return the counts. Never raises: a team that was never built has no roles."""
        building = [turn for turn in episode.turns if turn.role == BUILDER]
        carried_out = [result.name for turn in building for result in turn.results if result.ok]
        tokens = [
            len(turn.token_ids) or turn.usage.get("completion_tokens", 0.0)
            for turn in episode.turns
            if turn.role != BUILDER
        ]
        return {
            "team_roles": float(carried_out.count("add_role")),
            "team_edges": float(carried_out.count("add_edge")),
            "team_tokens": float(sum(tokens)),
        }
