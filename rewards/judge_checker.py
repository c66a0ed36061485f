"""Runs in a sandbox of the judge's that the submission never enters: the tests, with the candidate far away.

Standard library only: this text is sent to the sandbox as it stands, after `judge_values.py`. One JSON line each way at
a time: the tests' call goes out, the candidate's answer comes in, and in the end the verdict goes out.
"""

from __future__ import annotations

import builtins
import json
import random
import sys
from typing import Any

if "pack" not in globals():  # here pack and unpack stand before this text; in the repository they are a module
    from .judge_values import pack, unpack


def serve() -> None:
    """Run the tests of the first line that comes in."""
    order = json.loads(sys.stdin.readline())
    out, sys.stdout = sys.stdout, sys.stderr

    def say(message: Any) -> None:
        out.write(json.dumps(message) + "\n")
        out.flush()

    def candidate(*args: Any, **kwargs: Any) -> Any:
        say({"call": [pack(list(args)), pack(kwargs)]})
        answer = json.loads(sys.stdin.readline())
        if "value" in answer:
            return unpack(answer["value"])
        kind = getattr(builtins, str(answer.get("raised")), RuntimeError)
        failed = isinstance(kind, type) and issubclass(kind, Exception)
        raise (kind if failed else RuntimeError)("the candidate failed")

    random.seed(0)
    scope: dict[str, Any] = {"__name__": "tests"}
    try:
        exec(compile(order["setup"], "setup.py", "exec"), scope)
        scope[order["entry_point"]] = candidate
        exec(compile(order["check"], "check.py", "exec"), scope)
        say({"passed": True})
    except BaseException as error:  # noqa: BLE001 - an assertion, or whatever a wrong value led to
        say({"passed": False, "error": f"{type(error).__name__}: {error}"[:300]})
