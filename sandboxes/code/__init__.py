"""Code in a sandbox, one module an environment: functions, programs, projects, a shell, a notebook, mathematics.

workbench.py     the sandbox of one episode, with the task's files in it
transcript.py    what a run printed, as text for the agent
guest_tests.py   runs inside: visible tests        guest_files.py   runs inside: hands in all files
"""

from .bash import CodeBash
from .chores import CodeChores
from .complete import CodeComplete
from .environment import Code
from .files import CodeFiles
from .function import CodeFunction
from .maths import CodeMaths
from .notebook import CodeNotebook
from .program import CodeProgram
from .verified import CodeVerified
from .verilog import CodeVerilog

__all__ = [
    "Code",
    "CodeBash",
    "CodeChores",
    "CodeComplete",
    "CodeFiles",
    "CodeFunction",
    "CodeMaths",
    "CodeNotebook",
    "CodeProgram",
    "CodeVerified",
    "CodeVerilog",
]
