"""`protocol`: whether an agent called its tools, and answered, in the order that a formula requires."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from agentgym import Reward, Trajectory
from agentgym.methods.protocol import Protocol
from agentgym.reward import Components


class ProtocolReward(Reward):
    """Outcome component `protocol`: 1.0 if the turns of the episode satisfy the formula, else 0.0.

    The turn component `protocol_step` is 0.0 for a turn after which the formula can no longer hold, and 1.0 for others;
    it has weight 0. Formulas are in linear temporal logic over finite traces: see agentgym.methods.protocol.

    Args:
        formula: for example "U(not submit, test)": test before the first submit.
        ending_tools: tools whose call ends the episode.
    Raises: ValueError if the formula cannot be read.
    """

    weights: Mapping[str, float] = {"protocol": 0.1, "protocol_step": 0.0}

    def __init__(self, formula: str = "True", *, ending_tools: Sequence[str] = ()) -> None:
        self.protocol = Protocol(formula, ending_tools=ending_tools)

    def outcome(self, episode: Trajectory) -> Components:
        return {"protocol": float(self.protocol.is_kept_by(self.protocol.steps(episode)))}

    def hindsight(self, episode: Trajectory) -> list[Components]:
        steps = self.protocol.steps(episode)
        states = [self.protocol.after(steps[:count]) for count in range(len(steps) + 1)]
        can = [self.protocol.can_be_kept(state) for state in states]
        return [{"protocol_step": float(after or not before)} for before, after in pairwise(can)]
