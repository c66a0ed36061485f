"""Bugs for real packages: one place changed, caught by a test, told of without the fix, and mended by its reverse."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest

from agentgym import load_task_set
from agentgym.errors import TaskError
from agentgym.sandboxes.swe.bugs.build import build
from agentgym.sandboxes.swe.bugs.difficulty import Reach, difficulty
from agentgym.sandboxes.swe.bugs.issue import Seen, leaks, report, wrong_call
from agentgym.sandboxes.swe.bugs.package import Package, steady
from agentgym.sandboxes.swe.bugs.recipe import BugRecipe, Release
from agentgym.sandboxes.swe.bugs.releases import release_task
from agentgym.sandboxes.swe.bugs.trial import impatient
from agentgym.sandboxes.swe.judge import RepositoryTests
from agentgym.sandboxes.swe.patch import make_patch
from agentgym.sandboxes.swe.repository import Repository
from agentgym.sandboxes.swe.sources import archive, fetch

TESTS = """import pytest
from small import add, sign


def test_sums():
    assert add(2, 3) == 5


@pytest.mark.parametrize("x", [1, -1])
def test_sign(x):
    assert sign(x) == x
"""


def test_an_issue_tells_the_call_its_values_what_came_of_it_and_what_should_have():
    repository = Repository({"test_small.py": TESTS.encode()})
    test = "test_small.py::test_sign[-1]"
    good = Seen({"x": "-1"}, [["sign(x=-1)", "returns -1"]])
    bad = Seen({"x": "-1"}, [["sign(x=-1)", "returns 1"]])
    reason = "    def sign(x):\n>       return 1\nE       assert 1 == -1\nE        +  where 1 = sign(-1)"
    title, text = report(repository, [test], {test: reason}, {test: (good, bad)})
    assert title == "sign is wrong"
    assert text == (
        "To reproduce:\n\n    from small import sign\n    x = -1\n    assert sign(x) == x\n\n"
        "`sign(x=-1)` returns 1.\nIt should return -1.\n\n"
        "What came of it:\n\n    assert 1 == -1\n    +  where 1 = sign(-1)"
    )
    assert report(repository, ["gone.py::test_x", "test_small.py::nothing"], {}, {}) is None
    assert report(repository, [test], {}, {}) is None  # without its values nobody could run it
    assert wrong_call(good, Seen({}, [["sign(x=2)", "returns 1"]])) is None  # something before it went wrong
    assert leaks("I think\n    return a + b\nis it", "--- a/x\n+++ b/x\n@@\n-    return a - b\n+    return a + b\n")
    assert not leaks(text, "+    return a + b\n")


def test_a_bug_is_harder_to_find_where_its_tests_reach_more():
    """Test a fails and reaches f and g; b passes and reaches g, so that f is the more suspicious: 1/1 > 1/sqrt(2)."""
    reach = Reach(["m.py:f", "m.py:C.g", "m.py:h"], {"a": [0, 1], "b": [1, 2]})
    assert reach.tests_of("m.py", "C") == {"a", "b"}
    assert reach.rank("m.py", "f", ["a"]) == 1
    assert reach.rank("m.py", "C.g", ["a"]) == 2
    assert difficulty([1, 3], "-a\n+b\n+c\n--- x\n+++ y\n") == (4.585, {"ranks": [1, 3], "changed_lines": 2})


SMALL = {
    "setup.py": "",
    "small_spans.py": "def span(values):\n    low = min(values)\n    high = max(values)\n    return high - low\n",
    "small.py": '''def add(a, b):
    """The sum."""
    return a + b


def sign(x):
    if x > 0:
        return 1
    return -1


def unused(x):
    return x * 3
''',
    "test_small.py": TESTS
    + "".join(
        f"\n\ndef test_span_{n}():\n    import small_spans\n\n    assert small_spans.span([{n}, 9]) == {9 - n}\n"
        for n in (1, 2)
    )
    + "".join(f"\n\ndef test_other_{n}():\n    assert abs(-{n}) == {n}\n" for n in range(9)),
}
RECIPE = """name = "acme/bugs-v1"
each = 5
of_a_function = 2
pairs = 1

[[package]]
pinned = "small==1.0"
"""


def write_sources(folder: Path) -> Path:
    """A recipe, and a cache that holds the source of a package nobody else has. Returns: the cache."""
    archives = folder / "cache" / "sources"
    archives.mkdir(parents=True)
    write_archive(archives, "1.0", SMALL)
    (folder / "recipe.toml").write_text(RECIPE)
    return archives.parent


def write_archive(archives: Path, version: str, files: dict[str, str]) -> None:
    with tarfile.open(archives / f"small=={version}.tar.gz", "w:gz") as archived:
        for name, text in files.items():
            info = tarfile.TarInfo(f"small-{version}/{name}")
            info.size = len(text)
            archived.addfile(info, io.BytesIO(text.encode()))


@pytest.fixture
def sources(tmp_path, monkeypatch) -> Path:
    """The folder of a recipe and its cache."""
    monkeypatch.setenv("AGENTGYM_CACHE", str(write_sources(tmp_path)))
    return tmp_path


@pytest.fixture(scope="module")
def built_by_command(tmp_path_factory) -> tuple[subprocess.CompletedProcess[str], Path, list[str]]:
    """How the command ended that went on after another was killed, the set that it wrote, and the tasks that were
    on disk when it was; their prompts were replaced by their ids."""
    folder = tmp_path_factory.mktemp("command")
    out = folder / "made" / "bugs.jsonl"
    command = [sys.executable, "-m", "agentgym.sandboxes.swe.bugs", str(folder / "recipe.toml"), "--out", str(out)]
    command += ["--concurrency", "1"]
    variables = {**os.environ, "AGENTGYM_CACHE": str(write_sources(folder))}
    journal = out.with_name("bugs.jsonl.journal")
    killed = subprocess.Popen(command, env=variables, stderr=subprocess.DEVNULL)
    while killed.poll() is None and not (journal.is_file() and '"prompt"' in journal.read_text()):
        time.sleep(0.02)
    killed.kill()
    killed.wait()
    rows = [json.loads(line)[:2] for line in journal.read_text().splitlines() if line.endswith("]")]  # no digests
    tasks = [value for _, value in rows if isinstance(value, dict) and "prompt" in value]
    for task in tasks:
        task["prompt"] = task["id"]
    journal.write_text("\n".join(map(json.dumps, rows)) + '\n["cut sho')
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env=variables)
    return ended, out, [task["id"] for task in tasks]


@pytest.mark.needs_namespaces
def test_a_set_is_built_from_the_command_line_and_a_build_that_was_killed_goes_on(built_by_command):
    """Five bugs of at most two a function, and one of two files; `unused` has no test, so no bug is in it."""
    ended, out, on_disk = built_by_command
    assert ended.returncode == 0, ended.stderr
    task_set = load_task_set(str(out))
    assert len(task_set["train"]) == 6
    assert "train: 6 tasks" in ended.stderr
    assert "small==1.0: 6 of 6" in ended.stderr
    assert not out.with_name("bugs.jsonl.journal").exists()
    assert on_disk
    assert {task.id for task in task_set["train"] if task.prompt == task.id} == set(on_disk)  # not made once more
    for task in task_set["train"]:
        assert "-    return x * 3" not in task.parameters["patch"]
        assert 1 <= len(task.truth["fail_to_pass"]) <= 4
        assert len(task.truth["fail_to_pass"]) + len(task.truth["pass_to_pass"]) == 14
        assert not leaks(task.prompt, task.truth["gold"])
        assert task.truth["gold"] not in json.dumps(task.parameters)
        assert task.difficulty == difficulty(task.truth["measured"]["ranks"], task.truth["gold"])[0]
    [pair] = [task for task in task_set["train"] if task.tags[1] == "several"]
    assert pair.truth["gold"].count("diff --git") == 2
    assert "\n1. To reproduce:" in pair.prompt


@pytest.mark.needs_namespaces
@pytest.mark.thorough
async def test_the_same_set_is_built_whatever_is_tried_at_once(sources, built_by_command):
    recipe = BugRecipe.load(sources / "recipe.toml")
    built = await build(recipe, sources / "bugs.jsonl", concurrency=3)
    assert [task.id for task in built["train"]] == [
        task.id for task in load_task_set(str(built_by_command[1]))["train"]
    ]
    prompt = next(task.prompt for task in built["train"] if "sign" in task.prompt and task.tags[1] != "several")
    assert "    from small import sign\n    x = " in prompt


@pytest.mark.needs_namespaces
@pytest.mark.thorough
async def test_a_package_that_gives_no_task_is_named_with_the_reason(sources):
    """Here the tests run without it, as those of pluggy do, whose functions pytest has from its own copy."""
    tests = "def test_abs():\n    assert abs(-1) == 1\n"
    write_archive(sources / "cache" / "sources", "2.0", {"small.py": SMALL["small.py"], "test_small.py": tests})
    recipe = BugRecipe(name="acme/bugs-v1", packages=(Package("small==2.0"),))
    with pytest.raises(TaskError, match=r"small==2\.0 gives no task: its tests reach no function of it"):
        await build(recipe, sources / "bugs.jsonl")


NEWER = {
    **SMALL,
    "small.py": SMALL["small.py"].replace("    return -1\n", "    return -1 if x else 0\n"),
    "test_small.py": SMALL["test_small.py"] + "\n\ndef test_sign_of_zero():\n    assert sign(0) == 0\n",
    "CHANGES.md": "# 1.1\n\nThe sign of 0 is 0.\n",
}


@pytest.mark.needs_namespaces
async def test_the_newer_of_two_releases_judges_the_older(sources):
    write_archive(sources / "cache" / "sources", "1.1", NEWER)
    task = await release_task(Release(Package("small==1.0"), "small==1.1"), RepositoryTests())
    assert task.parameters["repository"] == "small==1.0"
    assert task.truth["fail_to_pass"] == ["test_small.py::test_sign_of_zero"]
    assert len(task.truth["pass_to_pass"]) == 14
    assert task.truth["gold"].count("+    return -1 if x else 0") == 1
    assert "test_sign_of_zero" not in json.dumps(task.parameters)
    assert "> The sign of 0 is 0." in task.prompt
    assert "`sign(x=0)` returns -1.\nIt should return 0." in task.prompt
    assert task.truth["measured"]["ranks"] == [1]
    with pytest.raises(TaskError, match="are the same"):
        await release_task(Release(Package("small==1.1"), "small==1.1"), RepositoryTests())


@pytest.mark.needs_namespaces
@pytest.mark.thorough
async def test_a_bug_that_never_ends_is_given_up_soon_after_the_time_that_the_tests_take_without_it(sources):
    [package] = BugRecipe.load(sources / "recipe.toml").packages
    source = SMALL["small.py"]
    endless = source.replace("    if x > 0:", "    while x > 0:\n        pass\n    if x > 0:")
    bug = make_patch({"small.py": source.encode()}, {"small.py": endless.encode()})
    judge = impatient(RepositoryTests(cpu_s=600, timeout_s=300), 0.3)
    assert judge.cpu_s == 3
    verdict = await judge.judge(package.task(truth={}), bug, ["test_small.py"])
    assert verdict is not None
    assert not verdict.outcomes
    assert impatient(RepositoryTests(cpu_s=60), 100.0).cpu_s == 60


def test_where_sources_and_tests_lie_is_found():
    files = ["setup.py", "src/a/__init__.py", "src/a/b/c.py", "src/a/tests/test_c.py", "docs/conf.py", "docs/test_d.py"]
    nested = Package("a==1").located(Repository(dict.fromkeys(files, b"")))
    assert (nested.sources, nested.tests, nested.source) == (("src/a/*.py",), ("src/a/tests",), ("src/",))
    flat = Package("a==1").located(Repository(dict.fromkeys(["setup.py", "a.py", "test_a.py"], b"")))
    assert (flat.sources, flat.tests, flat.source) == (("a.py",), ("test_a.py",), (".",))
    with pytest.raises(TaskError, match="no tests in their usual places"):
        Package("a==1").located(Repository({"a.py": b""}))


def test_a_recipe_says_what_is_wrong_with_it(tmp_path):
    path = tmp_path / "r.toml"
    for text, says in (
        ("x =", "not valid TOML"),
        ('name = "a/b-v1"', "at least one"),
        (RECIPE.replace("each", "every"), "unknown keys"),
        (RECIPE + RECIPE[RECIPE.index("[[") :], "twice"),
        (RECIPE.replace("pinned =", "pin ="), "unknown keys"),
        (RECIPE.replace('pinned = "small==1.0"', ""), "'pinned'"),
        (RECIPE.replace("[[package]]", "[[release]]"), "another version"),
        (RECIPE + '[[release]]\npinned = "small==0.9"\nnew = "small==1.0"\nsplit = "held_out"', "two splits"),
        (RECIPE + 'split = "test"', "Choose train"),
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
    passing, _ = await Package("odd==1.0", tests=("test_odd.py",)).passing(RepositoryTests(), times=2)
    assert passing == ["test_odd.py::test_plain"]
