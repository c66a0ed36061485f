"""Runs in the judge's fresh sandbox: evaluates calls on a submission and reports their values as plain data.

Uses only the standard library, because its source is sent to the sandbox; the judge imports `encode` from it. The
process holds the submission and the calls but never an expected value, so even a submission that controls the process
can only report values that it can compute.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import sys
from typing import Any

MAX_DEPTH = 40


def encode(value: Any, depth: int = 0) -> Any:
    """Encode a value as JSON-compatible data, the same for equal values.

    A number is ["n", text], whatever its type, because 1 == 1.0 == True. Lists, tuples, sets and dicts keep their kind;
    sets and dicts are sorted by their members' data. Anything else is ["?", type], which `same` never finds equal.
    """
    kind = type(value)
    if depth > MAX_DEPTH:
        return ["?", "nested too deeply"]
    if value is None or kind is str:
        return value
    if isinstance(value, int):
        return ["n", hex(int(value))]
    if isinstance(value, float):
        return ["n", hex(int(value))] if value.is_integer() else ["n", repr(float(value))]
    if kind is complex:
        return encode(value.real) if not value.imag else ["c", encode(value.real), encode(value.imag)]
    if isinstance(value, (bytes, bytearray)):
        return ["b", bytes(value).hex()]
    if isinstance(value, (list, tuple)):
        return ["l" if isinstance(value, list) else "t", *(encode(item, depth + 1) for item in value)]
    if isinstance(value, (set, frozenset)):
        return ["e", *sorted((encode(item, depth + 1) for item in value), key=json.dumps)]
    if isinstance(value, dict):
        pairs = [[encode(key, depth + 1), encode(item, depth + 1)] for key, item in value.items()]
        return ["d", *sorted(pairs, key=lambda pair: json.dumps(pair[0]))]
    if isinstance(value, str):
        return str(value)
    return ["?", kind.__name__]


def main(code: str, setup: str, calls: list[str], nonce: str, cpu_s: int) -> None:
    """Load the submission, evaluate each call, and write one line for each: nonce, number, data.

    The submission's own output is discarded. A call that raises writes nothing. After `cpu_s` seconds of processor time
    the process is killed.
    """
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s))
    report = os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115 - lives as long as the process
    sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115
    namespace = {"__name__": "submission", "__builtins__": __builtins__}
    sys.setrecursionlimit(10_000)
    for text, name in ((setup, "setup.py"), (code, "submission.py")):
        with contextlib.suppress(BaseException):  # hostile code may raise SystemExit; missing names show in the calls
            exec(compile(text, name, "exec"), namespace)
    for number, call in enumerate(calls):
        try:
            line = f"{nonce} {number} {json.dumps(encode(eval(call, namespace)))}\n".encode()
        except BaseException:  # noqa: BLE001 - hostile code
            continue
        while line:
            line = line[os.write(report, line) :]
    os._exit(0)  # skips exit handlers and the submission's threads
