"""The house has floors (docs: the file map in README): a room imports only from floors below it."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest
from import_circles import arrows_between_children, circles, describe_circle, packages
from source_tree import CONTENT, Import, imports_in, imports_of, source_files

# The floors of DESIGN.md, section 2. Where rooms of one floor know each other, tenths order them.
FLOORS = {
    "number_types": 0.0,
    "text": 0.0, "thoughts": 0.0, "deprecation": 0.0, "strict_json": 0.0, "threads": 0.0,
    "options": 0.2,  # old names are found by `moved`
    "messages": 0.1,  # tells thoughts from speech
    "errors": 0.1,  # what an error quotes is made visible by `text`
    "moved": 0.1,  # warns as `deprecation` does
    "_imports": 0.2,  # a missing extra is one of the errors
    "tools": 1.0, "task": 1.0, "sandbox": 1.0,
    "trajectory": 2.0,
    "reward": 2.1,  # judges trajectories
    "environment": 2.2,  # names the reward that judges it
    "registry": 2.3,  # make() returns an Environment
    "policy": 3.0, "storage": 3.0,
    "rollout": 4.0, "credit": 4.0,
    "evaluation": 5.0,
    "training": 5.1,  # a run evaluates before, during and after training, and writes the report
    "cluster": 6.0, "viewer": 6.0,
    "interop": 6.1,  # the policy gateway listens, and bounds connections, as the environment server does
    "cli": 6.2,
    "__main__": 6.3,
}  # fmt: skip

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
    if FLOORS[other] < FLOORS[room]:
        return ""
    return f"{room} is on floor {FLOORS[room]}, {other} on {FLOORS[other]}"


def test_no_files_or_folders_of_a_package_import_each_other_in_a_circle():
    """The floors hold inside packages too: whatever package you open, its children can be read from the ground up."""
    found = []
    for package in packages():
        arrows = arrows_between_children(package)
        found += [describe_circle(package, circle, arrows) for circle in circles(arrows)]
    assert found == []


def test_content_imports_only_the_framework_methods_and_its_siblings():
    """Bundled content is written as a user's own package would be: it names other content by registry name.

    What a package of methods declares as public may be imported too, as a user's own package may. The public line
    counts the names.
    """
    assert [
        f"{path}:{statement.line} imports {statement.module}: {objection}"
        for path in BUNDLED
        for statement in own_imports(path)
        if (objection := content_objection(path, statement))
    ] == []


SHARED = ("methods.", "sandboxes.languages.", "testing.")
"""Content that other content may import, by its public names."""


def content_objection(path: Path, statement: Import) -> str:
    """Why a file of the content folders may not import this; nothing if it may."""
    parts = statement.module.split(".")[1:]
    if not parts or parts[0] not in CONTENT:
        known = not parts or parts[0] in FLOORS or parts[0] == "__version__"
        return "" if known else "there is no such room in the framework"
    is_shared = f"{'.'.join(parts)}.".startswith(SHARED)
    if not statement.relative:
        own = parts[: 2 if len(path.parts) > 2 else 1] == list(path.parts[:-1][:2])
        return "" if is_shared and not own else "write a relative import"
    folder = path.parts[1] if len(path.parts) > 2 else None
    entered = parts[1] if (parts[0], *parts[1:2]) in BUNDLED_FOLDERS else None
    if parts[0] != path.parts[0] or (entered not in (None, folder) and not is_shared):
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
        ("credit", "training", "credit is on floor 4.0, training on 5.1"),
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
        ("agentgym.methods.teams", False, ""),
        ("agentgym.methods.teams", True, "neighbour"),
        ("agentgym.attic.box", False, "no such room"),
        ("agentgym.sandboxes.languages", False, ""),
        ("agentgym.sandboxes.languages_of_another", False, "relative"),
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
        "agentgym.tools.definition",
        "agentgym.task.definition",
        "agentgym.policy.scripted",
        "agentgym.credit.group",
        "agentgym.rollout.budgets",
        "agentgym.training.run",
    ]
    assert [statement.module for statement in imports if statement.in_function] == ["torch.nn"]


def test_a_circle_is_seen_however_its_imports_are_written():
    """Each import is found wherever it stands, and the children outside of the circle are not blamed."""
    files = {
        "agentgym/house/kitchen.py": "from agentgym.house.stairs import up",
        "agentgym/house/stairs.py": "def late():\n    import agentgym.house.attic.roof",
        "agentgym/house/attic/roof.py": "if TYPE_CHECKING:\n    from agentgym.house.kitchen import Stove",
        "agentgym/house/door.py": "import agentgym.house.kitchen",
        "agentgym/house/cellar.py": "from agentgym.house import door",
        "agentgym/house/__init__.py": "from agentgym.house.cellar import coal",
    }
    imports = {Path(path): imports_in(ast.parse(text), Path(path)) for path, text in files.items()}
    arrows = arrows_between_children("agentgym.house", imports)
    assert [*circles(arrows)] == [["__init__", "cellar"], ["attic", "kitchen", "stairs"]]
    assert describe_circle("agentgym.house", ["__init__", "cellar"], arrows) == (
        "agentgym.house: __init__, cellar import each other: "
        "__init__ -> cellar (agentgym/house/__init__.py:1); cellar -> __init__ (agentgym/house/cellar.py:1)"
    )
