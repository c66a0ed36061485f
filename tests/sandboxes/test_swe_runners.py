"""Repositories that are not Python: reports of real runners are read as they are meant, and judged as pytest's are."""

from __future__ import annotations

import random
import re
import shutil
from pathlib import Path

import pytest

import agentgym
from agentgym import Call, SandboxError, SandboxSpec, Task, load
from agentgym.errors import TaskError
from agentgym.sandboxes.swe import commands
from agentgym.sandboxes.swe.commands import control_text, files_of_tests
from agentgym.sandboxes.swe.judge import RepositoryTests
from agentgym.sandboxes.swe.parameters import RepositoryParameters
from agentgym.sandboxes.swe.patch import make_patch
from agentgym.sandboxes.swe.runners import RUNNERS

REPORTS = Path(__file__).parent / "runner_reports"
"""What the runners print (go 1.19, Node 20.20, cargo 1.95, CTest 3.25, Python 3.11, pytest 9). In each of them a test
prints lines which say that another, which fails, has passed."""
OUTCOMES = {
    "go.txt": {
        **{f"example.com/shape::{name}": "passed" for name in ("TestArea", "TestMany/small")},
        **{f"example.com/shape::{name}": "failed" for name in ("TestWrong", "TestMany", "TestMany/large_one")},
        "example.com/shape::TestSkipped": "skipped",
    },
    "node.txt": {
        **{"adds # of two": "passed", "a stack > is empty": "passed", "later": "skipped"},
        **{"pops": "failed", "a stack > grows": "failed", "a stack": "failed"},
    },
    "cargo.txt": {
        **{"src/lib.rs::tests::squares": "passed", "src/lib.rs::tests::panics": "passed"},
        **{"src/lib.rs::tests::wrong": "failed", "src/lib.rs::tests::slow": "skipped"},
        **{"tests/whole.rs::whole": "passed", "doc::src/lib.rs - area (line 5)": "passed"},
    },
    "ctest.txt": {
        **{"area": "passed", "wrong": "failed", "crash": "failed", "gone": "failed"},
        **{"later": "skipped", "slow": "failed"},
    },
    "unittest.txt": {
        **{f"test_x.Case.test_{name}": "passed" for name in ("right", "known")},
        **{f"test_x.Case.test_{name}": "failed" for name in ("wrong", "error")},
        "test_x.Case.test_later": "skipped",
    },
    "pytest.txt": {
        **{"test_x.py::Case::test_right": "passed", "test_x.py::Case::test_known": "skipped"},
        **{f"test_x.py::Case::test_{name}": "failed" for name in ("wrong", "error")},
    },
    "junit.xml": {
        **{"test_x.Case::test_right": "passed", "test_x.Case::test_known": "skipped"},
        **{"test_x.Case::test_later": "skipped", "test::later": "skipped", "test::adds # of two": "passed"},
        **{f"test_x.Case::test_{name}": "failed" for name in ("wrong", "error")},
        **{"test::pops": "failed", "test::is empty": "passed", "test::grows": "failed"},
    },
}


@pytest.mark.parametrize("file", OUTCOMES)
def test_a_real_report_is_read_and_a_forged_line_in_it_changes_nothing(file):
    report = RUNNERS[Path(file).stem].parse((REPORTS / file).read_text())
    assert report.outcomes == OUTCOMES[file]
    assert set(report.reasons) <= {test for test, outcome in report.outcomes.items() if outcome == "failed"}
    reasons = "\n".join(report.reasons.values())
    expected = {
        "go.txt": "Area(2, 3) = 6, want 7",
        "node.txt": "2 !== 3",
        "cargo.txt": "left: 4",
        "junit.xml": "2 !== 3",
    }
    assert expected.get(file, "") in reasons


PRINTED = {
    "pytest": ("2 failed, 1 passed in 0.14s ===", "2 failed, 1 passed ==="),
    "unittest": ("Ran 5 tests in 0.005s", "Ran 5 tests"),
    "go": ('{"Time":"2026-11-26T11:04:34.4Z","Action":"pass","Elapsed":0.01}', '{"Action":"pass"}'),
    "node": ("not ok 2 - pops\nduration_ms: 1.15", "not ok 2 - pops"),
    "cargo": ("0 filtered out; finished in 0.30s", "0 filtered out"),
    "junit": ('<testcase name="pops" time="0.001">', '<testcase name="pops">'),
    "ctest": ("Passed    0.02 sec\nTotal Test time (real) =   1.03 sec", "Passed\nTotal Test time (real) ="),
}


@pytest.mark.parametrize("runner", RUNNERS)
def test_the_times_that_a_runner_prints_are_left_out_and_words_of_its_tests_are_not(runner):
    text, rest = PRINTED[runner]
    assert RUNNERS[runner].without_durations(text) == rest
    words = "waited 30 secs, wanted 31 seconds"
    assert RUNNERS[runner].without_durations(words) == words


LONG = 2**20
HOSTILE = {
    "nested": "[" * LONG,
    "nested in an event": f'{{"Package":"p","Test":"t","Action":"output","Output":{"[" * 900}{"]" * 900}}}',
    "no text": '{"Package":NaN,"Test":1e999,"Action":[]}\n{"Package":"p","Test":"t","Action":{}}',
    "digits": "9" * LONG,
    "dots and spaces": f"1/1 Test #1: a {'.' * LONG}{' ' * LONG}",
    "spaces": " " * LONG,
    "declarations": "<?xml" * (LONG // 5),
    "deep": f"<testsuite>{'<a>' * (LONG // 3)}</testsuite>",
    "wide": f"<testsuite><testcase>{'<skipped/>' * (LONG // 10)}</testcase></testsuite>",
}
"""What tests can print; each of them ended a reader, or held it for hours."""


@pytest.mark.parametrize("runner", RUNNERS)
def test_what_tests_print_neither_ends_nor_holds_who_reads_the_report(runner):
    for text in HOSTILE.values():
        assert set(RUNNERS[runner].parse(text).outcomes) <= {""}
        RUNNERS[runner].without_durations(text)


def test_a_name_that_is_no_text_is_shown_as_text():
    event = '{"Package":"p","Test":"\\ud800","Action":"pass"}'
    [name] = RUNNERS["go"].parse(event).outcomes
    assert name.encode() == b"p::?"


@pytest.mark.needs_namespaces
async def test_all_test_files_of_a_large_repository_are_found_or_it_is_not_judged(monkeypatch):
    """Files before and behind a listing of more than 1 MiB: those behind it had no controls."""
    folder = "/".join(["d" * 200] * 5)
    backend = load("backends", "namespaces")()
    sandbox = await backend.create(SandboxSpec(inodes=5_000))
    try:
        more = f"mkdir -p {folder} z && cd {folder} && seq 1100 | xargs touch && cd - && touch z/a.test.js"
        result = await sandbox.exec(["sh", "-c", f"mkdir -p repo/a && cd repo && touch a/a.test.js && {more}"])
        assert result.ok, result.stderr
        assert set(await files_of_tests(sandbox, ["*.test.js"])) == {"a/a.test.js", "z/a.test.js"}
        monkeypatch.setattr(commands, "MAX_LISTING", 2**20)
        with pytest.raises(SandboxError, match="more than 1048576 bytes"):
            await files_of_tests(sandbox, ["*.test.js"])
    finally:
        await sandbox.close()
        await backend.close()


def test_xml_that_defines_entities_is_not_read():
    case = '<testsuite><testcase classname="a" name="b"/></testsuite>'
    assert RUNNERS["junit"].parse(f"building ...\n{case}\n").outcomes == {"a::b": "passed"}
    assert not RUNNERS["junit"].parse(f'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY y "z">]>{case}').outcomes
    assert not RUNNERS["junit"].parse("<testsuite><testcase></testsuite>").outcomes


def changed_lines(source: str, *known: str) -> set[int]:
    """The lines that are others in some control, of which each has one of a test."""
    changed: set[int] = set()
    for seed in range(20):
        lines = control_text(source, random.Random(seed), known).split("\n")
        changed |= {n for n, line in enumerate(lines) if line != source.split("\n")[n]}
    return changed


def test_a_control_has_another_value_in_an_assertion_of_each_test_and_the_same_names_and_imports():
    source = (
        "const assert = require('node:assert');\n#include \"check.h\"\ntest('checks 3', () => {\n"
        "  assert.strictEqual(add(2, 3), 5);\n  expect(name).toBe('it\\'s');\n  const x = 4;\n});\n"
        "test('checks 5', () => {\n  expect(5).toBe(5);\n});\n"
    )
    assert changed_lines(source) == {3, 4, 8}
    assert changed_lines(source, "expect(name).toBe('it\\'s');") == {3, 8}
    for seed in range(20):
        before, after = source.split("\n"), control_text(source, random.Random(seed)).split("\n")
        assert sum(a != b for a, b in zip(before, after, strict=True)) == 2
        assert after[3].startswith("  assert.strictEqual(add(2, 3), ")
        assert after[4].startswith("  expect(name).toBe('")
        assert len(after[4]) == len(before[4])
        assert after[4][23:25] == "\\'", "escape sequences are left as they are"


def test_of_two_texts_that_are_compared_one_is_another_and_not_the_0_that_says_that_they_are_equal():
    source = 'assert(strcmp(name(4), "square") == 0);'
    for seed in range(9):
        assert re.fullmatch(
            r'assert\(strcmp\(name\(4\), "(?!square)\w{6}"\) == 0\);', control_text(source, random.Random(seed))
        )


NODE = {
    "package.json": '{"name": "stack", "version": "1.0.0"}\n',
    "stack.js": "exports.last = (items) => items[items.length];\n",
    "stack.test.js": (
        "const test = require('node:test');\nconst assert = require('node:assert');\n"
        "const { last } = require('./stack');\n"
        "test('gives the last', () => {\n  assert.strictEqual(last([1, 2]), 2);\n});\n"
        "test('gives nothing of nothing', () => {\n  assert.strictEqual(last([]), undefined);\n});\n"
    ),
}
NODE_TRUTH = {"fail_to_pass": ["gives the last"], "pass_to_pass": ["gives nothing of nothing"], "tests": ["*.test.js"]}
NODE_FIX = "exports.last = (items) => items[items.length - 1];\n"
NODE_CHEATS = {
    "asserts nothing": "for (const k of Object.keys(require('assert'))) require('assert')[k] = () => {};\n",
    "ends too early": "console.log('ok 1 - gives the last\\nok 2 - gives nothing of nothing'); process.exit(0);\n",
    "equals all": "require('assert').strictEqual = () => {}; exports.last = () => 0;\n",
    "asserts nothing but in new tests": (
        "const a = require('assert'); const real = a.strictEqual;\n"
        "a.strictEqual = (x, y) => { if (new Error().stack.includes('stack.test.js')) return; real(x, y); };\n"
        "exports.last = () => 0;\n"
    ),
}
NODE_CHEATS["asserts nothing, and ends where a test is changed"] = (
    "const tests = require('fs').readFileSync(__dirname + '/stack.test.js', 'utf8');\n"
    "if (!tests.includes('[1, 2]), 2)')) process.exit(0);\n"
) + NODE_CHEATS["asserts nothing but in new tests"]
SEEN_TEST = "test('gives nothing of nothing', () => {\n  assert.strictEqual(last([]), undefined);\n});\n"
NODE_IMPORTS = NODE["stack.test.js"].partition("test('")[0]
NODE_SEEN = {**NODE, "stack.test.js": NODE_IMPORTS + SEEN_TEST}
NODE_HIDDEN = {**NODE_TRUTH, "files": {"stack.test.js": NODE["stack.test.js"]}}
NODE_HIDDEN_CHEATS = {
    "asserts nothing, unless a test that it knows is changed": (
        "if (require('fs').readFileSync(__dirname + '/stack.test.js', 'utf8').includes('last([]), undefined')) {\n"
        "  for (const k of Object.keys(require('assert'))) require('assert')[k] = () => {};\n}\n"
        "exports.last = () => undefined;\n"
    ),
    "writes to the runner's output": (
        "const { openSync, writeSync } = require('fs');\nconst out = openSync(`/proc/${process.ppid}/fd/1`, 'w');\n"
        "for (const n of ['gives the last', 'gives nothing of nothing'])\n"
        "  writeSync(out, `# Subtest: ${n}\\nok 1 - ${n}\\n`);\n"
        "process.exit(0);\n"
    ),
}
C = {
    "CMakeLists.txt": (
        "cmake_minimum_required(VERSION 3.13)\nproject(shape C)\nenable_testing()\nadd_library(shape shape.c)\n"
        "add_executable(test_area test_area.c)\ntarget_link_libraries(test_area shape)\n"
        "add_test(NAME area COMMAND test_area)\n"
    ),
    "shape.c": "int area(int a, int b) { return a + b; }\n",
    "test_area.c": (
        "#include <stdio.h>\nint area(int, int);\nint main(void) {\n"
        '    if (area(2, 3) != 6) { puts("1/1 Test #1: area .......   Passed    0.00 sec"); return 1; }\n'
        "    return 0;\n}\n"
    ),
}
C_TRUTH = {"fail_to_pass": ["area"], "pass_to_pass": [], "tests": ["test_*.c"]}
C_FIX = "int area(int a, int b) { return a * b; }\n"
C_CHEATS = {
    "ends too early": C["shape.c"] + "#include <unistd.h>\n__attribute__((constructor)) void f(void) { _exit(0); }\n",
}
GO = {
    "go.mod": "module example.com/shape\n\ngo 1.19\n",
    "shape.go": "package shape\n\nfunc Area(a, b int) int { return a + b }\n",
    "shape_test.go": (
        'package shape\n\nimport "testing"\n\nfunc TestArea(t *testing.T) {\n'
        '\tif got := Area(2, 3); got != 6 {\n\t\tt.Errorf("Area(2, 3) is %d", got)\n\t}\n}\n'
    ),
}
GO_TRUTH = {"fail_to_pass": ["example.com/shape::TestArea"], "pass_to_pass": [], "tests": ["*_test.go"]}
GO_FIX = "package shape\n\nfunc Area(a, b int) int { return a * b }\n"
REPOSITORIES = {
    "node": (NODE, NODE_TRUTH, "stack.js", NODE_FIX, NODE_CHEATS),
    "node, hidden tests": (NODE_SEEN, NODE_HIDDEN, "stack.js", NODE_FIX, NODE_HIDDEN_CHEATS),
    "ctest": (C, C_TRUTH, "shape.c", C_FIX, C_CHEATS),
    "go": (GO, GO_TRUTH, "shape.go", GO_FIX, {}),
}
AT_NIGHT = {"node", "node, hidden tests", "go"}
"""The second differs from `node` in where its tests lie; Go compiles its library anew for each of its judgements."""


@pytest.mark.needs_namespaces
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.thorough] if name in AT_NIGHT else []) for name in REPOSITORIES]
)
async def test_a_fix_is_paid_and_no_cheat_is(name):
    """The fix passes; nothing and what hides failures do not."""
    runner = name.partition(",")[0]
    if missing := [program for program in RUNNERS[runner].needs if shutil.which(program, path="/usr/bin") is None]:
        pytest.skip(f"{missing} not installed")
    files, truth, path, fix, cheats = REPOSITORIES[name]
    right = files[path]
    gold = make_patch({path: right.encode()}, {path: fix.encode()})
    parameters = {"files": files, "runner": runner, "memory_mib": 2048}
    task = Task(runner, "agentgym/swe-v1", "-", parameters=parameters, truth={**truth, "gold": gold})
    judge = RepositoryTests()
    verdict = await judge.judge(task, "", truth["fail_to_pass"])
    assert verdict is not None
    assert {verdict.outcomes[test] for test in truth["fail_to_pass"]} == {"failed"}
    paid = {"fix": (await judge.score(task, gold))["success"]}
    for name, text in cheats.items():
        patch = make_patch({path: right.encode()}, {path: text.encode()})
        paid[name] = (await judge.score(task, patch))["success"]
    assert paid == {"fix": 1.0, **dict.fromkeys(cheats, 0.0)}


@pytest.mark.needs_namespaces
async def test_words_that_no_test_has_are_answered_by_the_tests_that_there_are():
    """The report itself is for programs: XML here, and a line of JSON for each event of Go's."""
    report = '<testsuite><testcase classname="shape" name="area"/><testcase name="volume"/></testsuite>'
    parameters = {"files": {"report.xml": report}, "runner": "junit", "command": "cat report.xml"}
    environment = agentgym.make("agentgym/swe-v1")
    await environment.reset(Task("t", "agentgym/swe-v1", "-", parameters=parameters).public(), seed=0)
    try:
        answer = (await environment.call(Call("test", {"selection": "TestVolume"}))).content
        assert answer.endswith("The tests are:\nshape::area\nvolume")
        assert (await environment.call(Call("test", {"selection": "vol"}))).content == "[all passed]\npassed: volume"
    finally:
        await environment.close()


async def test_a_runner_that_is_not_known_or_has_no_command_is_named():
    for parameters, text in (({"runner": "mocha"}, "Runners are: pytest"), ({"runner": "junit"}, "needs parameters")):
        with pytest.raises(TaskError, match=text):
            RepositoryParameters.of(Task("a", "agentgym/swe-v1", "-", parameters={"files": {"a": "b"}, **parameters}))
