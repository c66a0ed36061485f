"""Code in a sandbox, one module per environment: functions, programs, projects, a shell, a notebook, mathematics.

workbench.py     the sandbox of one episode, with the task's files in it
transcript.py    what a run printed, as text for the agent
terminal/        a shell on the files of a task folder of Harbor or Terminal-Bench
guest_tests.py   runs inside: visible tests        guest_files.py   runs inside: submits all files
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
from .terminal import CodeTerminal, TerminalVerifier
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
    "CodeTerminal",
    "CodeVerified",
    "CodeVerilog",
    "TerminalVerifier",
]
