"""Bugs for real packages: one place changed, caught by a test, told of without the fix, and mended by its reverse."""

from __future__ import annotations

import ast
import io
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from agentgym import load_task_set
from agentgym.errors import TaskError
from agentgym.sandboxes.swe.bugs.build import BugRecipe, _impatient, _Journal, build
from agentgym.sandboxes.swe.bugs.issue import issue_text, leaks
from agentgym.sandboxes.swe.bugs.mutations import mutations
from agentgym.sandboxes.swe.bugs.package import steady
from agentgym.sandboxes.swe.judge import RepositoryTests
from agentgym.sandboxes.swe.patch import make_patch
from agentgym.sandboxes.swe.repository import Repository
from agentgym.sandboxes.swe.sources import archive, fetch

SOURCE = '''"""Words."""
import os

LIMIT = 10


def clip(text: str, most: int = 3) -> str:
    """Cut a text."""
    if len(text) <= most and text:
        return text.strip()
    shorter = text[: most + 1]
    print("é", shorter)
    return max(shorter, os.sep)


class Pair:
    flag = True

    def both(self):
        """Both."""
        left = 1
        right = 2
        return f"{left + right}"
'''


def test_every_kind_of_bug_changes_its_place_and_nothing_else():
    by_place = {(m.kind, m.line): m for m in mutations(SOURCE)}
    lines = SOURCE.split("\n")
    for mutation in by_place.values():
        broken = mutation.apply(SOURCE)
        ast.parse(broken)
        assert broken != SOURCE
        if mutation.kind != "removed":
            differing = [n for n, (a, b) in enumerate(zip(lines, broken.split("\n"), strict=True), 1) if a != b]
            assert differing == [mutation.line], mutation
    assert by_place["boundary", 9].apply(SOURCE).split("\n")[8] == "    if len(text) < most and text:"
    assert by_place["operator", 9].apply(SOURCE).split("\n")[8] == "    if len(text) <= most or text:"
    assert by_place["branch", 9].apply(SOURCE).split("\n")[8] == "    if not (len(text) <= most and text):"
    assert by_place["call", 10].apply(SOURCE).split("\n")[9] == "        return text"
    assert by_place["constant", 7].apply(SOURCE).split("\n")[6] == "def clip(text: str, most: int = 4) -> str:"
    assert by_place["call", 12].apply(SOURCE).split("\n")[11] == "    pass"
    assert by_place["argument", 13].apply(SOURCE).split("\n")[12] == "    return max(os.sep, shorter)"
    assert by_place["return", 13].apply(SOURCE).split("\n")[12] == "    return None"
    assert by_place["constant", 17].function == "Pair"
    gone = by_place["removed", 21]
    assert gone.function == "Pair.both"
    assert '"""Both."""\n        raise NotImplementedError\n' in gone.apply(SOURCE)
    assert not any(m.line <= 4 for m in by_place.values())  # what a module says at its top


def test_what_is_no_python_has_no_bugs():
    assert list(mutations("def (")) == []
    assert list(mutations("\0")) == []


TESTS = """import pytest
from small import add, sign


def test_sums():
    assert add(2, 3) == 5


@pytest.mark.parametrize("x", [1, -1])
def test_sign(x):
    assert sign(x) == x
"""


def test_an_issue_shows_what_was_run_and_what_came_and_not_where():
    repository = Repository({"test_small.py": TESTS.encode()})
    reason = "    def add(a, b):\n>       return a - b\nE       assert -1 == 5\nE        +  where -1 = add(2, 3)"
    text = issue_text(repository, ["test_small.py::test_sums"], {"test_small.py::test_sums": reason}, "small")
    assert text == (
        "small: sums does not work as it should\n\nWhat I ran:\n\nassert add(2, 3) == 5\n\n"
        "What came of it:\n\nassert -1 == 5\n+  where -1 = add(2, 3)"
    )
    assert "# with x = -1" in (issue_text(repository, ["test_small.py::test_sign[-1]"], {}, "small") or "")
    assert issue_text(repository, ["gone.py::test_x", "test_small.py::nothing"], {}, "small") is None
    assert leaks("I think\n    return a + b\nis it", "--- a/x\n+++ b/x\n@@\n-    return a - b\n+    return a + b\n")
    assert not leaks(text, "+    return a + b\n")


SMALL = {
    "setup.py": "",
    "small.py": '''def add(a, b):
    """The sum."""
    return a + b


def sign(x):
    if x > 0:
        return 1
    return -1


def span(values):
    low = min(values)
    high = max(values)
    return high - low


def unused(x):
    return x * 3
''',
    "test_small.py": TESTS
    + "".join(
        f"\n\ndef test_span_{n}():\n    import small\n\n    assert small.span([{n}, 9]) == {9 - n}\n" for n in (1, 2)
    )
    + "".join(f"\n\ndef test_other_{n}():\n    assert abs(-{n}) == {n}\n" for n in range(9)),
}
RECIPE = """name = "acme/bugs-v1"
each = 5
of_a_function = 2

[[package]]
pinned = "small==1.0"
sources = ["*.py"]
tests = ["test_small.py"]
test_files = ["test_*.py", "setup.py"]
"""


def write_sources(folder: Path) -> Path:
    """A recipe, and a cache that holds the source of a package nobody else has. Returns: the cache."""
    archives = folder / "cache" / "sources"
    archives.mkdir(parents=True)
    with tarfile.open(archives / "small==1.0.tar.gz", "w:gz") as archived:
        for name, text in SMALL.items():
            info = tarfile.TarInfo(f"small-1.0/{name}")
            info.size = len(text)
            archived.addfile(info, io.BytesIO(text.encode()))
    (folder / "recipe.toml").write_text(RECIPE)
    return archives.parent


@pytest.fixture
def sources(tmp_path, monkeypatch) -> Path:
    """The folder of a recipe and its cache."""
    monkeypatch.setenv("AGENTGYM_CACHE", str(write_sources(tmp_path)))
    return tmp_path


@pytest.fixture(scope="module")
def built_by_command(tmp_path_factory) -> tuple[subprocess.CompletedProcess[str], Path]:
    """How the command ended, and the set that it wrote."""
    folder = tmp_path_factory.mktemp("command")
    out = folder / "made" / "bugs.jsonl"
    command = [sys.executable, "-m", "agentgym.sandboxes.swe.bugs", str(folder / "recipe.toml"), "--out", str(out)]
    variables = {**os.environ, "AGENTGYM_CACHE": str(write_sources(folder))}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=variables), out


@pytest.mark.needs_namespaces
def test_a_set_is_built_from_the_command_line_and_its_gold_patches_solve_it(built_by_command):
    """Five bugs of at most two a function; `unused` has no test, so none of its bugs is a task."""
    ended, out = built_by_command
    assert ended.returncode == 0, ended.stderr
    task_set = load_task_set(str(out))
    assert len(task_set["train"]) == 5
    assert "train: 5 tasks" in ended.stderr
    assert not out.with_name("bugs.jsonl.found").exists()
    for task in task_set["train"]:
        assert "-    return x * 3" not in task.parameters["patch"]
        assert 1 <= len(task.truth["fail_to_pass"]) <= 4
        assert len(task.truth["fail_to_pass"]) + len(task.truth["pass_to_pass"]) == 14
        assert not leaks(task.prompt, task.truth["gold"])
        assert task.truth["gold"] not in json.dumps(task.parameters)


@pytest.mark.needs_namespaces
async def test_a_build_that_was_broken_off_goes_on_and_gives_what_another_gave(sources, built_by_command):
    recipe = BugRecipe.load(sources / "recipe.toml")
    out = sources / "bugs.jsonl"
    journal = out.with_name("bugs.jsonl.found")
    journal.write_text(json.dumps({"package": repr(recipe.packages[0]), "tasks": []}) + "\n{cut sho")
    assert len((await build(recipe, out))["train"]) == 0  # what the journal says is done is not done again
    assert (await build(recipe, out)).fingerprint() == load_task_set(str(built_by_command[1])).fingerprint()


@pytest.mark.needs_namespaces
async def test_a_bug_that_never_ends_is_given_up_soon_after_the_time_that_the_tests_take_without_it(sources):
    [package] = BugRecipe.load(sources / "recipe.toml").packages
    source = SMALL["small.py"]
    endless = source.replace("    if x > 0:", "    while x > 0:\n        pass\n    if x > 0:")
    bug = make_patch({"small.py": source.encode()}, {"small.py": endless.encode()})
    judge = _impatient(RepositoryTests(cpu_s=600, timeout_s=300), 0.3)
    assert judge.cpu_s == 3
    verdict = await judge.judge(package.task(truth={}), bug, ["test_small.py"])
    assert verdict is not None
    assert not verdict.outcomes
    assert _impatient(RepositoryTests(cpu_s=60), 100.0).cpu_s == 60


def test_what_is_kept_after_a_line_that_was_cut_short_is_read_again(sources):
    [package] = BugRecipe.load(sources / "recipe.toml").packages
    path = sources / "bugs.jsonl.found"
    path.write_text('{"package": "cut sho')
    _Journal(path).keep(package, [])
    assert _Journal(path).of(package) == []


def test_a_recipe_says_what_is_wrong_with_it(tmp_path):
    path = tmp_path / "r.toml"
    for text, says in (
        ("x =", "not valid TOML"),
        ('name = "a/b-v1"', "at least one"),
        (RECIPE.replace("each", "every"), "unknown keys"),
        (RECIPE + RECIPE[RECIPE.index("[[") :], "there twice"),
        (RECIPE.replace('tests = ["test_small.py"]', ""), "'tests'"),
        (RECIPE + 'split = "test"', "none of train"),
    ):
        path.write_text(text)
        with pytest.raises(TaskError, match=says):
            BugRecipe.load(path)


def test_a_source_is_what_its_hash_says(sources):
    assert archive("small==1.0") == fetch("small==1.0")
    assert archive("Small==1.0") is not None
    assert archive("small==2.0") is None
    with pytest.raises(TaskError, match="was expected"):
        fetch("small==1.0", sha256="0" * 64)
    with pytest.raises(TaskError, match="name==version"):
        fetch("small>=1.0")


def test_a_function_whose_tests_changed_places_judges_nothing_at_all():
    """`b[0]` has its name in every round, but it stands for another test once what was before it comes behind it."""
    first_round = {
        "t.py::a": "passed",
        "t.py::b[0]": "passed",
        "t.py::b[x]": "passed",
        "t.py::c": "passed",
        "t.py::d": "failed",
    }
    other = {"t.py::a": "passed", "t.py::b[x]": "passed", "t.py::b[0]": "passed", "t.py::c": "failed"}
    assert steady([first_round, first_round]) == ["t.py::a", "t.py::b[0]", "t.py::b[x]", "t.py::c"]
    assert steady([first_round, other]) == ["t.py::a"]
    assert steady([other, first_round]) == ["t.py::a"]


@pytest.mark.needs_namespaces
@pytest.mark.skipif(
    Path("/proc/sys/kernel/randomize_va_space").read_text().strip() == "0", reason="all processes lie at one address"
)
async def test_a_test_that_is_named_otherwise_in_another_interpreter_judges_nothing(sources):
    """A class hashes by its address, so the numbers of these tests differ from one interpreter to the next."""
    tests = """import pytest


class Odd:
    pass


@pytest.mark.parametrize("n, odd, pair", {(n, Odd, (n,)) for n in range(30)})
def test_number(n, odd, pair):
    assert pair == (n,)


def test_plain():
    assert Odd
"""
    with tarfile.open(sources / "cache" / "sources" / "odd==1.0.tar.gz", "w:gz") as archived:
        info = tarfile.TarInfo("odd-1.0/test_odd.py")
        info.size = len(tests)
        archived.addfile(info, io.BytesIO(tests.encode()))
    (sources / "recipe.toml").write_text(RECIPE.replace("small", "odd"))
    [package] = BugRecipe.load(sources / "recipe.toml").packages
    passing = await package.passing(RepositoryTests(), times=2)
    assert passing == ["test_odd.py::test_plain"]
