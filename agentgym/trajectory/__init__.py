"""The record of an episode: token-exact, turn by turn, with rewards and provenance.

provenance.py  how an episode was produced, and what happened during it
turn.py        Turn, with judges' spans of its characters and logit hooks' masks of its tokens
record.py      Trajectory, its contexts, and its tokens as arrays
"""

from agentgym.moved import moved_names
from agentgym.trajectory.provenance import ForkPoint, PromptAddition, Provenance
from agentgym.trajectory.record import EndState, Row
from agentgym.trajectory.turn import Span, TokenMask

__all__ = [
    "EndState",
    "ForkPoint",
    "PromptAddition",
    "Provenance",
    "Row",
    "Span",
    "TokenMask",
]

__getattr__ = moved_names(__name__)
