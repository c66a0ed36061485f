"""What results were measured with: the tasks of every bundled set, and the tools of every bundled environment.

Two results under one id can be compared, so a change of either needs a new `-vN` (docs/stability.md). The pins were
written by another process, whose strings hash differently; so they also prove that tasks depend on no order of a set.

    python tests/contracts/pins.py      pin what is new; a pin that changed is reported, and changed by hand
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from agentgym import load, load_task_set
from agentgym.registry import names

FILE = Path(__file__).with_name("pins.json")
PINS: dict[str, dict[str, str]] = json.loads(FILE.read_text(encoding="utf-8"))


def tools_digest(environment: str) -> str:
    """A hash of what agents are told of the tools: names, descriptions and parameters."""
    schemas = {name: tool.schema() for name, tool in load("environments", environment).tools.items()}
    return hashlib.sha256(json.dumps(schemas, sort_keys=True).encode()).hexdigest()[:16]


def main() -> None:
    today: dict[str, dict[str, Any]] = {
        "task_sets": {name: load_task_set(name).fingerprint() for name in names("task_sets")},
        "tools": {name: tools_digest(name) for name in names("environments")},
    }
    for kind, digests in today.items():
        for name, digest in digests.items():
            if PINS[kind].setdefault(name, digest) != digest:
                print(f"{name}: pinned as {PINS[kind][name]}, and is {digest} today")
    FILE.write_text(json.dumps(PINS, indent=2, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
