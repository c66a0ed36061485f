"""Runs the tests in a sandbox that the submission never enters; `remote_check.py` forwards the calls.

Uses only the standard library, because it is sent to the sandbox as a guest module, with `judge_values.py`. Messages
are JSON lines: this program writes each call of the candidate and reads its answer; at the end it writes the verdict.
"""

from __future__ import annotations

import builtins
import json
import random
import sys
from typing import Any

from .judge_values import pack, unpack


def serve() -> None:
    """Run the tests given in the first line of stdin. Write the candidate's calls to stdout; read answers on stdin."""
    job = json.loads(sys.stdin.readline())
    out, sys.stdout = sys.stdout, sys.stderr

    def send(message: Any) -> None:
        out.write(json.dumps(message) + "\n")
        out.flush()

    def candidate(*args: Any, **kwargs: Any) -> Any:
        send({"call": [pack(list(args)), pack(kwargs)]})
        answer = json.loads(sys.stdin.readline())
        if "value" in answer:
            return unpack(answer["value"])
        kind = getattr(builtins, str(answer.get("raised")), RuntimeError)
        is_exception = isinstance(kind, type) and issubclass(kind, Exception)
        raise (kind if is_exception else RuntimeError)("the candidate failed")

    random.seed(0)
    scope: dict[str, Any] = {"__name__": "tests"}
    try:
        exec(compile(job["setup"], "setup.py", "exec"), scope)
        scope[job["entry_point"]] = candidate
        exec(compile(job["check"], "check.py", "exec"), scope)
        send({"passed": True})
    except BaseException as error:  # noqa: BLE001 - an assertion, or whatever a wrong value led to
        send({"passed": False, "error": f"{type(error).__name__}: {error}"[:300]})
