"""Runs in the submission's sandbox and answers the calls of tests that run in another sandbox.

Uses only the standard library, because it is sent to the sandbox as a guest module, with `judge_values.py`. The
submission may take over this process, but can only send return values and never sees an expected value.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import sys
from typing import Any

from .judge_values import pack, unpack


def serve() -> None:
    """Load the submission in the first line of input, then answer the call in each further line.

    What the submission prints is discarded.
    """
    calls, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    submission = json.loads(calls.readline())
    resource.setrlimit(resource.RLIMIT_CPU, (submission["cpu_s"], submission["cpu_s"]))
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    sys.setrecursionlimit(10_000)
    scope: dict[str, Any] = {"__name__": "submission"}
    for name in ("setup", "code"):
        with contextlib.suppress(BaseException):  # hostile code; missing definitions surface in the calls
            exec(compile(submission[name], name + ".py", "exec"), scope)
    answers.write('{"ready": true}\n')
    answers.flush()
    for line in calls:
        args, kwargs = (unpack(part) for part in json.loads(line)["call"])
        try:
            answer: Any = {"value": pack(scope[submission["entry_point"]](*args, **kwargs))}
        except BaseException as error:  # noqa: BLE001 - hostile code
            answer = {"raised": type(error).__name__}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
