"""Token ids of trajectories that were played without a renderer, for a model to imitate them."""

from __future__ import annotations

from agentgym.policy.contract import Renderer
from agentgym.rollout.environments import schemas_of
from agentgym.trajectory import Trajectory


def tokenise(trajectory: Trajectory, renderer: Renderer) -> Trajectory:
    """Fill in the token ids of a trajectory that was played without a renderer, as its own agent would have."""
    trajectory.prompt_ids = renderer.prompt(trajectory.opening, schemas_of(trajectory))
    for further in trajectory.further_rows:
        further.prompt_ids = renderer.prompt(further.opening, further.tools)
    last_turns = {id(row.turns[-1]) for row in trajectory.rows() if row.turns}
    for turn in trajectory.turns:
        turn.token_ids = renderer.encode(turn.message)
        turn.logprobs = [0.0] * len(turn.token_ids)
        if id(turn) not in last_turns:
            turn.observation_ids = renderer.observation(turn.observation())
    return trajectory
