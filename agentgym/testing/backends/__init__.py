"""Does a sandbox backend keep its contract, and withstand hostile code?

    await check_backend("namespaces")                       # None, or a ConformanceError with every finding
    async for verdict in run_checks(backend): ...           # the verdict of each check, for a table

check.py   what a check is                     testbed.py    where a check runs, and how the host is watched
runs.py    check_backend, run_checks, checks   fake_guest.py a guest that has been taken over
promises, commands, python_calls, files, channels, life, snapshots   the contract, by theme
against_*.py                                                         the attacks, by their target
"""

from agentgym.testing.backends.check import BackendCheck, Breach, CheckVerdict, NotApplicable
from agentgym.testing.backends.runs import ATTACKS, CONTRACT, Check, check_backend, checks, run_checks
from agentgym.testing.backends.testbed import SPEC

__all__ = [
    "ATTACKS",
    "CONTRACT",
    "SPEC",
    "BackendCheck",
    "Breach",
    "Check",
    "CheckVerdict",
    "NotApplicable",
    "check_backend",
    "checks",
    "run_checks",
]
