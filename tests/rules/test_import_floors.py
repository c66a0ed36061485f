"""The house has floors (docs: the file map in README): a room imports only from floors below it."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest
from source_tree import CONTENT, Import, imports_in, imports_of, source_files

FLOORS = {
    "visible": -1,  # the messages of errors are made visible
    "errors": 0, "messages": 0, "threads": 0, "deprecation": 0, "lazy": 0, "validated": 0, "extras": 0, "rounding": 0,
    "section": 0, "strict_json": 0,
    "tools": 1, "task": 1, "sandbox": 1, "provenance": 1,
    "trajectory": 2, "languages": 2, "mixture": 2,
    "reward": 3, "protocol": 3,
    "environment": 4, "guest_module": 4, "observed_state": 4, "registry": 4,
    "policy": 5, "storage": 5, "wrapper": 5,
    "rollout": 6, "credit": 6, "episode": 6, "users": 6, "teams": 6, "knowledge": 6,
    "search": 7,
    "training": 8, "evaluation": 8,
    "cluster": 9, "interop": 9, "viewer": 9, "cli": 9, "testing": 9,
    "__main__": 10,
}  # fmt: skip

# Neighbours on one floor, where one may know the other but not the other way round.
NEIGHBOURS = {
    ("extras", "errors"): "a missing extra is one of the errors",
    ("registry", "environment"): "make() returns an Environment",
    ("rollout", "knowledge"): "a rollout shows its episodes what earlier ones have taught",
    ("training", "evaluation"): "a run evaluates before, during and after training, and writes the report",
    ("cli", "cluster"): "`agentgym serve` and `agentgym cluster` start what episodes are played on",
    ("cli", "interop"): "`agentgym serve mcp` and `serve policy` offer episodes to programs of others",
    ("interop", "cluster"): "the policy gateway listens, and bounds connections, as the environment server does",
    ("cli", "testing"): "`agentgym check` runs the conformance checks",
    ("cli", "viewer"): "`agentgym view` starts the server",
}

FRAMEWORK = [path for path in source_files() if path.parts[0] == "agentgym" and len(path.parts) > 1]
BUNDLED = [path for path in source_files() if path.parts[0] in CONTENT]


def room_of(module: str) -> str:
    """`rollout` for `agentgym.rollout.manager`, nothing for `agentgym` itself."""
    return ([*module.split("."), ""])[1]


def own_imports(path: Path) -> list[Import]:
    """The imports of agentgym's own modules in a file."""
    return [statement for statement in imports_of(path) if statement.module.split(".")[0] == "agentgym"]


def test_a_room_imports_only_from_floors_below_it():
    rooms = {path.parts[1].removesuffix(".py") for path in FRAMEWORK} - {"__init__"}
    assert rooms <= set(FLOORS), "a room without a floor: add it to FLOORS and to DESIGN's table"
    objections = [
        f"{path}:{statement.line} imports {statement.module}: {objection}"
        for path in FRAMEWORK
        # agentgym/__init__.py names rooms for type checkers alone, which test_light_import proves
        if path.parts[1] != "__init__.py"
        for statement in own_imports(path)
        if (objection := floor_objection(path.parts[1].removesuffix(".py"), room_of(statement.module)))
    ]
    assert objections == []


def floor_objection(room: str, other: str) -> str:
    """Why a room may not import another one; nothing if it may."""
    if other in (room, "__version__"):
        return ""
    if not other:
        return "import the room that is meant, not the whole of agentgym"
    if other in CONTENT:
        return "the framework reaches content through the registry"
    if other not in FLOORS:
        return f"{other} stands on no floor"
    if FLOORS[other] < FLOORS[room] or (room, other) in NEIGHBOURS:
        return ""
    return f"{room} is on floor {FLOORS[room]}, {other} on {FLOORS[other]}"


def test_every_exception_between_neighbours_is_used():
    used = {
        (path.parts[1].removesuffix(".py"), room_of(statement.module))
        for path in FRAMEWORK
        for statement in own_imports(path)
    }
    assert set(NEIGHBOURS) <= used, f"no longer needed: {set(NEIGHBOURS) - used}"


def test_content_imports_only_the_framework_and_its_siblings():
    """Bundled content is written as a user's own package would be: it names other content by registry name."""
    assert [
        f"{path}:{statement.line} imports {statement.module}: {objection}"
        for path in BUNDLED
        for statement in own_imports(path)
        if (objection := content_objection(path, statement))
    ] == []


def content_objection(path: Path, statement: Import) -> str:
    """Why a file of the content folders may not import this; nothing if it may."""
    parts = statement.module.split(".")[1:]
    if not parts or parts[0] not in CONTENT:
        known = not parts or parts[0] in FLOORS or parts[0] == "__version__"
        return "" if known else "there is no such room in the framework"
    if not statement.relative:
        return "write a relative import"
    folder = path.parts[1] if len(path.parts) > 2 else None
    entered = parts[1] if (parts[0], *parts[1:2]) in BUNDLED_FOLDERS else None
    if parts[0] != path.parts[0] or entered not in (None, folder):
        return "it belongs to a neighbour; name it through the registry"
    return ""


BUNDLED_FOLDERS = {(path.parts[0], path.parts[1]) for path in BUNDLED if len(path.parts) > 2}


def test_what_runs_inside_a_sandbox_needs_nothing_but_python():
    assert [
        f"{path}:{statement.line} imports {statement.module}, which no sandbox has"
        for path in FRAMEWORK
        if path.parts[1:3] == ("sandbox", "guest")
        for statement in imports_of(path)
        if not statement.relative
        and statement.module.split(".")[0] not in sys.stdlib_module_names
        and "guest" not in statement.module
    ] == []


@pytest.mark.parametrize(
    ("room", "other", "objection"),
    [
        ("credit", "training", "credit is on floor 6, training on 8"),
        ("policy", "sandboxes", "through the registry"),
        ("policy", "", "the room that is meant"),
        ("policy", "attic", "stands on no floor"),
        ("training", "evaluation", ""),
        ("training", "policy", ""),
    ],
)
def test_a_wrong_import_between_rooms_is_seen(room, other, objection):
    assert objection in floor_objection(room, other)
    assert bool(objection) == bool(floor_objection(room, other))


@pytest.mark.parametrize(
    ("module", "relative", "objection"),
    [
        ("agentgym.sandboxes.sql.knowledge", True, "neighbour"),
        ("agentgym.rewards.sql", True, "neighbour"),
        ("agentgym.sandboxes.code.workbench", False, "relative"),
        ("agentgym.sandboxes.code.workbench", True, ""),
        ("agentgym.attic.box", False, "no such room"),
        ("agentgym.task", False, ""),
    ],
)
def test_a_wrong_import_of_content_is_seen(module, relative, objection):
    statement = Import(module, 1, False, relative)
    path = Path("sandboxes/code/invented.py")
    assert objection in content_objection(path, statement)
    assert bool(objection) == bool(content_objection(path, statement))


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
    imports = imports_in(ast.parse(written), Path("agentgym/rollout/invented.py"))
    assert [statement.module for statement in imports if not statement.in_function][1:] == [
        "agentgym.cli.play",
        "agentgym.tools",
        "agentgym.task",
        "agentgym.policy.scripted",
        "agentgym.credit.group",
        "agentgym.rollout.budgets",
        "agentgym.training.run",
    ]
    assert [statement.module for statement in imports if statement.in_function] == ["torch.nn"]
