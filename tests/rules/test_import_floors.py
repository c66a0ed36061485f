"""The house has floors (docs: the file map in README): a room imports only from floors below it."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest
from source_tree import CONTENT, Import, imports_in, imports_of, source_files

FLOORS = {
    "errors": 0, "messages": 0, "threads": 0, "validated": 0,
    "tools": 1, "task": 1, "reward": 1, "sandbox": 1,
    "environment": 2, "registry": 2, "trajectory": 2,
    "policy": 3, "storage": 3,
    "rollout": 4, "credit": 4,
    "training": 5, "evaluation": 5,
    "interop": 6, "viewer": 6, "cli": 6, "testing": 6,
}  # fmt: skip

# Neighbours on one floor, where one may know the other but not the other way round.
NEIGHBOURS = {
    ("registry", "environment"): "make() returns an Environment",
    ("reward", "task"): "a judge reads the task's truth",
    ("training", "evaluation"): "a run evaluates before, during and after training, and writes the report",
    ("cli", "testing"): "`agentgym check` runs the conformance checks",
    ("cli", "viewer"): "`agentgym view` starts the server",
}

FRAMEWORK = [path for path in source_files() if path.parts[0] == "agentgym" and len(path.parts) > 1]
BUNDLED = [path for path in source_files() if path.parts[0] in CONTENT]


def room_of(module: str) -> str:
    """`episode` for `agentgym.rollout.manager`, nothing for `agentgym` itself."""
    return ([*module.split("."), ""])[1]


def own(path_imports: list[Import]) -> list[Import]:
    return [one for one in path_imports if one.module.split(".")[0] == "agentgym"]


@pytest.mark.parametrize("path", FRAMEWORK, ids=str)
def test_a_room_imports_only_from_floors_below_it(path):
    room = path.parts[1].removesuffix(".py")
    if room == "__init__":
        return  # the package's own face: it names rooms for type checkers only, which test_light_import proves
    assert room in FLOORS, f"{path}: the room {room!r} stands on no floor; add it to FLOORS and to DESIGN's table"
    for one in own(imports_of(path)):
        other = room_of(one.module)
        if other in (room, "__version__"):
            continue
        assert other, f"{path}:{one.line} imports the whole of agentgym; import the room that is meant"
        assert other not in CONTENT, f"{path}:{one.line} imports content ({one.module}); name it through the registry"
        assert other in FLOORS, f"{path}:{one.line} imports {one.module}, which stands on no floor"
        allowed = FLOORS[other] < FLOORS[room] or (room, other) in NEIGHBOURS
        assert allowed, (
            f"{path}:{one.line} imports {one.module}: {room} is on floor {FLOORS[room]}, {other} on {FLOORS[other]}"
        )


def test_every_exception_between_neighbours_is_used():
    used = {
        (path.parts[1].removesuffix(".py"), room_of(one.module)) for path in FRAMEWORK for one in own(imports_of(path))
    }
    assert set(NEIGHBOURS) <= used, f"no longer needed: {set(NEIGHBOURS) - used}"


@pytest.mark.parametrize("path", BUNDLED, ids=str)
def test_content_imports_only_the_framework_and_its_siblings(path):
    """Bundled content is written as a user's own package would be: it names other content by registry name."""
    for one in own(imports_of(path)):
        parts = one.module.split(".")[1:]
        if not parts or parts[0] not in CONTENT:
            assert not parts or parts[0] in FLOORS or parts[0] == "__version__", f"{path}:{one.line}: {one.module}"
            continue
        assert one.relative, f"{path}:{one.line} imports {one.module} absolutely; write a relative import"
        assert parts[0] == path.parts[0], f"{path}:{one.line} imports {one.module}; name it through the registry"
        inside = path.parts[1] if len(path.parts) > 2 else None
        entered = parts[1] if len(parts) > 1 and any(BUNDLED_FOLDERS & {(parts[0], parts[1])}) else None
        assert entered in (None, inside), f"{path}:{one.line} enters a neighbour's folder: {one.module}"


BUNDLED_FOLDERS = {(path.parts[0], path.parts[1]) for path in BUNDLED if len(path.parts) > 2}


@pytest.mark.parametrize("path", [p for p in FRAMEWORK if p.parts[1:3] == ("sandbox", "guest")], ids=str)
def test_what_runs_inside_a_sandbox_needs_nothing_but_python(path):
    for one in imports_of(path):
        top = one.module.split(".")[0]
        assert one.relative or top in sys.stdlib_module_names or "guest" in one.module, (
            f"{path}:{one.line} imports {one.module}, which no sandbox has"
        )


def test_no_way_of_writing_an_import_escapes_these_rules():
    written = """
from __future__ import annotations
import agentgym.cli.play
from agentgym import tool, Task
from agentgym.policy import scripted
from ..credit import group
from . import budgets
if TYPE_CHECKING:
    from agentgym.training.run import train
def late():
    import torch.nn
"""
    found = imports_in(ast.parse(written), Path("agentgym/rollout/invented.py"))
    assert [one.module for one in found if not one.in_function][1:] == [
        "agentgym.cli.play",
        "agentgym.tools",
        "agentgym.task",
        "agentgym.policy.scripted",
        "agentgym.credit.group",
        "agentgym.rollout.budgets",
        "agentgym.training.run",
    ]
    assert [one.module for one in found if one.in_function] == ["torch.nn"]
