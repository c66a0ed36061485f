"""Does a sandbox backend keep its contract, and withstand hostile code?

    await check_backend("namespaces")                       # None, or a ConformanceError with every finding
    async for verdict in run_checks(backend): ...           # every check's verdict, for a table

case.py    what a check is                     ground.py   where it is made, and how the host is watched
runs.py    check_backend, run_checks, checks   impostor.py a guest that has been taken over
promises, commands, python_calls, files, channels, life, snapshots   the contract, by theme
against_*.py                                                         the attacks, by what they are against
"""

from agentgym.testing.backends.case import Breach, Case, NotApplicable, Verdict
from agentgym.testing.backends.ground import SPEC
from agentgym.testing.backends.runs import ATTACKS, CONTRACT, Check, check_backend, checks, run_checks

__all__ = [
    "ATTACKS", "CONTRACT", "SPEC", "Breach", "Case", "Check", "NotApplicable", "Verdict", "check_backend", "checks",
    "run_checks",
]  # fmt: skip
