"""Runs in the sandbox of the submission: answers the calls of tests that run elsewhere.

Standard library only: this text is sent to the sandbox as it stands, after `judge_values.py`. The submission can take
over this whole process; all it can say is what its function returned, and it never sees what was expected.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import sys
from typing import Any

if "pack" not in globals():  # here pack and unpack stand before this text; in the repository they are a module
    from .judge_values import pack, unpack


def serve() -> None:
    """Load the submission of the first line, then answer a call a line. Its own output goes nowhere."""
    calls, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    order = json.loads(calls.readline())
    resource.setrlimit(resource.RLIMIT_CPU, (order["cpu_s"], order["cpu_s"]))
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    sys.setrecursionlimit(10_000)
    scope: dict[str, Any] = {"__name__": "submission"}
    for name in ("setup", "code"):
        with contextlib.suppress(BaseException):  # hostile code; what is missing shows in the calls
            exec(compile(order[name], name + ".py", "exec"), scope)
    answers.write('{"ready": true}\n')
    answers.flush()
    for line in calls:
        args, kwargs = (unpack(part) for part in json.loads(line)["call"])
        try:
            said: Any = {"value": pack(scope[order["entry_point"]](*args, **kwargs))}
        except BaseException as error:  # noqa: BLE001 - hostile code
            said = {"raised": type(error).__name__}
        answers.write(json.dumps(said) + "\n")
        answers.flush()
