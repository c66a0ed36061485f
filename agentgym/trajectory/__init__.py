"""The record of an episode: token-exact, turn by turn, with rewards and provenance.

provenance.py  what made an episode, and what happened to it on the way
turn.py        Turn, and what judges and logit hooks say of its characters and tokens
record.py      Trajectory, its contexts, and its tokens as arrays
"""

from agentgym.moved import moved_names
from agentgym.trajectory.provenance import ForkPoint, PromptAddition, Provenance, training_help
from agentgym.trajectory.record import EndState, Row, Trajectory
from agentgym.trajectory.turn import Span, TokenMask, Turn

__all__ = [
    "EndState",
    "ForkPoint",
    "PromptAddition",
    "Provenance",
    "Row",
    "Span",
    "TokenMask",
    "Trajectory",
    "Turn",
    "training_help",
]

__getattr__ = moved_names(__name__)
