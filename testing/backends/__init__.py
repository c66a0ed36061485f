"""Check that a sandbox backend keeps its contract and withstands hostile code.

    await check_backend("namespaces")                       # None, or a ConformanceError with every finding
    async for verdict in run_checks(backend): ...           # the verdict of each check, for a table

check.py   the definition of a check           testbed.py    the target of a check, and the watching of the host
runs.py    check_backend, run_checks, checks   fake_guest.py a guest under an attacker's control
promises, commands, python_calls, files, channels, life, snapshots   the contract, by theme
against_*.py                                                         the attacks, by their target
"""

from agentgym.moved import lazy_names

__all__ = []


__getattr__ = lazy_names(__name__, {})
