"""Runs inside the agent's sandbox: tries a candidate on the visible tests, and prints a report for the agent.

Standard library only: this file is sent to the sandbox unchanged. Nothing here decides a reward.
"""

from __future__ import annotations

import ast
import contextlib
import io
import traceback

MAX_VALUE = 200


def try_tests(code: str, setup: str, tests: list[str]) -> None:
    """Print `All 3 tests pass.`, or how many pass, and for each failing test its assertion and the outcome."""
    namespace: dict[str, object] = {"__name__": "candidate"}
    silence = io.StringIO()
    try:
        with contextlib.redirect_stdout(silence):
            exec(compile(setup, "setup.py", "exec"), namespace)
            exec(compile(code, "candidate.py", "exec"), namespace)
    except BaseException as error:  # noqa: BLE001 - the candidate may raise SystemExit
        print("The code cannot be loaded: " + describe_error(error))
        return
    failures = []
    for test in tests:
        with contextlib.redirect_stdout(silence):
            failure = outcome(test, namespace)
        if failure:
            failures.append(f"{test}\n  {failure}")
    if failures:
        print(f"{len(tests) - len(failures)} of {len(tests)} tests pass. These fail:")
        print("\n".join(failures))
    else:
        print(f"All {len(tests)} tests pass.")


def outcome(test: str, namespace: dict[str, object]) -> str:
    """Return what is wrong with an assertion; empty if it holds."""
    try:
        exec(compile(test, "test.py", "exec"), namespace)
    except AssertionError:
        claim = ast.parse(test.strip()).body[0].test  # type: ignore[attr-defined]
        call = claim.left if isinstance(claim, ast.Compare) else claim
        try:
            return "got " + short_repr(eval(compile(ast.Expression(call), "test.py", "eval"), namespace))
        except BaseException as error:  # noqa: BLE001
            return describe_error(error)
    except BaseException as error:  # noqa: BLE001
        return describe_error(error)
    return ""


def short_repr(value: object) -> str:
    text = repr(value)
    return text if len(text) <= MAX_VALUE else text[:MAX_VALUE] + "..."


def describe_error(error: BaseException) -> str:
    """Return the error, and the line of the candidate that raised it."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == "candidate.py"]
    where = f" (line {lines[-1]})" if lines else ""
    return f"{type(error).__name__}: {str(error)[:MAX_VALUE]}{where}"
