"""check_tool: a tool has a description, and accepts or refuses all arguments without an internal error."""

from __future__ import annotations

import json
import random
import re
from typing import Any

from agentgym import Tool
from agentgym.tools import WrongArguments

from .arguments import hostile, plausible, wrong
from .findings import Findings, short

_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}", re.ASCII)


def check_tool(tool: Tool) -> None:
    """Check a tool's description and argument validation without running the tool.

    Raises: ConformanceError with every finding.
    """
    findings = Findings(f"tool {tool.name!r}")
    look_at_tool(tool, findings)
    findings.conclude()


def look_at_tool(tool: Tool, findings: Findings) -> None:
    """Add a tool's faults to `findings`."""
    if not _NAME.fullmatch(tool.name):
        findings.add(f"The tool name {tool.name!r} cannot be called by models: letters, digits, _ and -, at most 64.")
    if not tool.description.strip():
        findings.add(f"The tool {tool.name!r} has no description; the model cannot know what it does.")
    try:
        schema = json.loads(json.dumps(tool.schema(), allow_nan=False))
    except (TypeError, ValueError) as error:
        findings.add(f"The schema of {tool.name!r} is not JSON: {error}. Defaults must be plain data.")
        return
    if schema["function"]["parameters"].get("type") != "object":
        findings.add(f"The parameters of {tool.name!r} are no object: {short(schema)}")
    for case, arguments in _cases(tool):
        try:
            tool.validate(arguments)
            accepted = True
        except WrongArguments as error:
            accepted = False
            if not str(error).strip():
                findings.add(f"The tool {tool.name!r} refuses {case} without saying why.")
        except Exception as error:  # noqa: BLE001  anything else would end the episode
            findings.add(f"The tool {tool.name!r}, given {case}, raised {type(error).__name__}: {short(error)}")
            continue
        if accepted and case in ("a list in place of the arguments", "an argument that does not exist"):
            findings.add(f"The tool {tool.name!r} accepts {case}.")
    rng = random.Random(0)
    for _ in range(5):
        arguments = plausible(tool, rng)
        try:
            tool.validate(arguments)
        except WrongArguments:
            break  # the tool may require more than its schema says
        except Exception as error:  # noqa: BLE001
            what = f"The tool {tool.name!r}, given {short(arguments)}, raised {type(error).__name__}"
            findings.add(f"{what}: {short(error)}")


def _cases(tool: Tool) -> list[tuple[str, Any]]:
    return [*wrong(tool), *((f"hostile arguments {short(a, 60)}", a) for a in hostile(tool))]
