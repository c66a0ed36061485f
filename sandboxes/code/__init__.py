"""Code in a sandbox, one module per environment: functions, programs, projects, a shell, a notebook, mathematics.

workbench.py     the sandbox of one episode, with the task's files in it
transcript.py    what a run printed, as text for the agent
terminal.py      a shell on the files of a task folder of Harbor or Terminal-Bench, with
    terminal_folder.py, dockerfile.py, build_context.py     what the folder says
    build.py, build_sandbox.py, base_images.py              the image that its Dockerfile makes
    submission.py, terminal_verifier.py                     its tests, in a separate sandbox
guest_tests.py   runs inside: visible tests        guest_files.py   runs inside: submits all files
guest_copy.py    runs inside: copies of a build
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
from .terminal import CodeTerminal
from .terminal_verifier import TerminalVerifier
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
