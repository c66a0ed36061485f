"""The record of an episode: token-exact, turn by turn, with rewards and provenance.

provenance.py  what made an episode, and what happened to it on the way
turn.py        Turn, and what judges and logit hooks say of its characters and tokens
record.py      Trajectory, its contexts, and its tokens as arrays
"""

from agentgym.trajectory.provenance import Assistance, ForkPoint, Provenance, ReplayedTurns
from agentgym.trajectory.record import EndState, Row, TokenArrays, Trajectory
from agentgym.trajectory.turn import Span, TokenMask, Turn

__all__ = [
    "Assistance",
    "EndState",
    "ForkPoint",
    "Provenance",
    "ReplayedTurns",
    "Row",
    "Span",
    "TokenArrays",
    "TokenMask",
    "Trajectory",
    "Turn",
]
