"""Check that a sandbox backend keeps its contract and withstands hostile code.

    await check_backend("namespaces")                       # None, or a ConformanceError with every finding
    async for verdict in run_checks(backend): ...           # the verdict of each check, for a table

check.py   what a check is                     testbed.py    where a check runs, and how the host is watched
runs.py    check_backend, run_checks, checks   fake_guest.py a guest that has been taken over
promises, commands, python_calls, files, channels, life, snapshots   the contract, by theme
against_*.py                                                         the attacks, by their target
"""

from agentgym.moved import lazy_names

__all__ = []


__getattr__ = lazy_names(__name__, {})
