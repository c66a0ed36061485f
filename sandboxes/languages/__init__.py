"""Functions in many languages: how to declare, compile and call them, with plain values as arguments and results.

The environments of `agentgym.sandboxes.code`, the reward `hidden_calls` and task sets share this package.

value_types.py   the types of arguments and results, and the equality of values
wire.py          values as one line of text, which every driver reads and writes
signature.py     a function's name, arguments and result
language.py      the description of a language; each has a module: c.py, cpp.py, java.py, ...
drivers/         the code in each language that reads calls and writes results
function_task.py     a task's description of its function
called_function.py   builds a submission in a sandbox and calls its function
"""

from __future__ import annotations

from .called_function import (
    FUNCTION_SPEC,
    CalledFunction,
    CallFailed,
    ToolchainFault,
    build,
    check_language,
    language_snapshot,
)
from .catalogue import LANGUAGES
from .function_task import Case, FunctionTask
from .language import Language
from .signature import Signature
from .value_types import ValueType, same_value

__all__ = [
    "FUNCTION_SPEC",
    "LANGUAGES",
    "CallFailed",
    "CalledFunction",
    "Case",
    "FunctionTask",
    "Language",
    "Signature",
    "ToolchainFault",
    "ValueType",
    "build",
    "check_language",
    "language_snapshot",
    "same_value",
]
