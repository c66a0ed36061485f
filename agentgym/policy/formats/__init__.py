"""Call formats: how an agent's text writes calls. Each is registered in `agentgym.call_formats`; see contract.py.

hermes, react and tags are formats of their own; agentgym.formats has those of model families. A format is written with
the names below.
"""

from agentgym.policy.formats.contract import (
    MAX_CALL_CHARS,
    MAX_CALLS,
    NINE_LETTERS,
    CallIds,
    Malformed,
    add_too_many_calls_error,
    excerpt,
    kind_of,
    malformed_call,
    refuse_unless_read_back,
    strict_json_at,
    strict_object,
)
from agentgym.policy.formats.json_calls import call_of, named
from agentgym.policy.formats.reader import CallWalk

__all__ = [
    "MAX_CALLS",
    "MAX_CALL_CHARS",
    "NINE_LETTERS",
    "CallIds",
    "CallWalk",
    "Malformed",
    "add_too_many_calls_error",
    "call_of",
    "excerpt",
    "kind_of",
    "malformed_call",
    "named",
    "refuse_unless_read_back",
    "strict_json_at",
    "strict_object",
]
