"""Call formats: how an agent's text writes calls. Each is registered in `agentgym.call_formats`; see contract.py.

hermes is here; agentgym.formats has the others. To write a format, use the names below:
`from agentgym.policy import formats`, then `formats.CallWalk`.
"""

from agentgym.policy.formats.coercion import parse_message as parse_message
from agentgym.policy.formats.contract import (
    MAX_CALL_CHARS as MAX_CALL_CHARS,
)
from agentgym.policy.formats.contract import (
    MAX_CALLS as MAX_CALLS,
)
from agentgym.policy.formats.contract import (
    NINE_LETTERS as NINE_LETTERS,
)
from agentgym.policy.formats.contract import (
    CallIds as CallIds,
)
from agentgym.policy.formats.contract import (
    Malformed as Malformed,
)
from agentgym.policy.formats.contract import (
    add_too_many_calls_error as add_too_many_calls_error,
)
from agentgym.policy.formats.contract import (
    excerpt as excerpt,
)
from agentgym.policy.formats.contract import (
    kind_of as kind_of,
)
from agentgym.policy.formats.contract import (
    malformed_call as malformed_call,
)
from agentgym.policy.formats.contract import (
    refuse_unless_read_back as refuse_unless_read_back,
)
from agentgym.policy.formats.contract import (
    strict_json_at as strict_json_at,
)
from agentgym.policy.formats.contract import (
    strict_object as strict_object,
)
from agentgym.policy.formats.json_calls import call_of as call_of
from agentgym.policy.formats.json_calls import named as named
from agentgym.policy.formats.reader import CallWalk as CallWalk
