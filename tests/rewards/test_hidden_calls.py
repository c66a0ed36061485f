"""`hidden_calls`: in every language right code passes, wrong code fails, and attacks on the judge gain nothing."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest
from forged_functions import ARGUMENTS, BOMBS, CPP, GO, KINDS, RUST, C
from forged_scripts import JAVA, JAVASCRIPT
from judging import answered, make_trajectory

from agentgym import JudgeError, load_task_set, shared_backend
from agentgym.rewards.hidden_calls import HiddenCalls
from agentgym.sandboxes.languages import LANGUAGES, Case, FunctionTask, Signature

pytestmark = pytest.mark.needs_namespaces

SQUARE = {"name": "square", "arguments": [["x", "int"]], "returns": "int"}
CALLS = [{"arguments": [x], "value": x * x} for x in (2, -3, 11)]
RIGHT = {
    "c": '#include <stdint.h>\n#include <stdio.h>\nint64_t square(int64_t x) { puts("=i9"); return x * x; }',
    "cpp": '#include <iostream>\nlong long square(long long x) { std::cout << "=i9"; return x * x; }',
    "go": 'import "fmt"\nfunc square(x int) int { fmt.Println("=i9"); return x * x }',
    "java": 'class Solution { long square(int x) { System.out.println("=i9"); return x * x; } }',
    "javascript": "async function square(x) { console.log('=i9'); return x * x; }",
    "rust": 'fn square(x: i64) -> i64 { println!("=i9"); x * x }\nfn main() {}',
}
FORGERIES = {"c": C, "cpp": CPP, "go": GO, "java": JAVA, "javascript": JAVASCRIPT, "rust": RUST}
HONEST = {
    "cpp": "#include <bits/stdc++.h>\nusing namespace std;\n#define int long long\nint wire = 1;\n"
    "int square(int x) { return x * x * wire; }",
    "java": "class Driver { long drive(long x) { return x; } }\n"
    "class Solution { static long square(long x) { return x * new Driver().drive(x); } }",
    "rust": "mod wire { pub fn times(x: i64) -> i64 { x * x } }\nfn square(x: i64) -> i64 { wire::times(x) }",
}
"""Right code that uses names which a driver could have taken for itself."""
SLOW_TO_COMPILE = {"cpp", "go", "java", "rust"}
"""Each forgery takes a second of a processor. By day tests/tasks/test_function_importers.py judges code in them."""


def available(name):
    missing = [
        program for program in LANGUAGES[name].needs if not shutil.which(program, path="/usr/local/bin:/usr/bin:/bin")
    ]
    if missing:
        pytest.skip(f"{name}: {', '.join(missing)} is not installed here; docs/environments/code.md lists the packages")
    return LANGUAGES[name]


def cases():
    return FunctionTask.of({"function": SQUARE, "languages": ["c"]}).cases(CALLS)


async def judged(name, code, hidden=None, **options):
    signature = Signature.of(SQUARE)
    return await HiddenCalls(**{"timeout_s": 30.0, **options}).judge(
        code, LANGUAGES[name], signature, hidden or cases()
    )


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.thorough] if name in SLOW_TO_COMPILE else []) for name in LANGUAGES]
)
async def test_right_code_passes_whatever_it_prints_and_no_forgery_does(name):
    """In one test, because the driver of a language is compiled once for it."""
    available(name)
    assert await judged(name, RIGHT[name]) == [True] * 3
    if name in HONEST:
        assert await judged(name, HONEST[name]) == [True] * 3
    hidden = [Case([x], x * x) for x in ARGUMENTS]
    assert set(KINDS) <= set(FORGERIES[name])
    for attack, code in FORGERIES[name].items():
        assert not any(await judged(name, code, hidden, timeout_s=10.0)), attack


async def test_the_forgery_that_searches_the_sandbox_would_find_a_right_value_there():
    """What makes the forgeries above worth trying: with the value in a file that a build leaves, one of them passes."""
    leaky = replace(
        LANGUAGES["c"], files=lambda signature: {**LANGUAGES["c"].files(signature), "kept": "1000066001089"}
    )
    code = FORGERIES["c"]["tricks of its calls"]
    hidden = [Case([x], x * x) for x in ARGUMENTS]
    assert await HiddenCalls().judge(code, leaky, Signature.of(SQUARE), hidden) == [False, True, False]


@pytest.mark.parametrize("bomb", BOMBS)
async def test_code_that_breaks_its_sandbox_or_its_compiler_is_wrong_and_not_the_judges_trouble(bomb):
    assert await judged("c", BOMBS[bomb], cpu_s=4) == [False] * 3


@pytest.mark.parametrize(
    ("name", "problems"),
    [
        ("javascript", 9),
        pytest.param("c", 9, marks=pytest.mark.thorough),
        *(pytest.param(name, 1, marks=pytest.mark.thorough) for name in LANGUAGES if name not in ("c", "javascript")),
    ],
)
async def test_the_solutions_of_the_bundled_set_pass_and_their_wrong_twins_do_not(name, problems):
    """All of them in the languages that are quick to compile; see the card of the set for the others."""
    available(name)
    tasks = [task for tasks in load_task_set("code/polyglot-v1").values() for task in tasks if name in task.tags]
    for task in tasks[-problems:]:
        function = FunctionTask.of(task.parameters)
        hidden = function.cases(task.truth["calls"])
        judge = HiddenCalls()
        both = [
            await judge.judge(task.truth[key], function.language(), function.signature, hidden)
            for key in ("reference", "wrong")
        ]
        assert all(both[0]), task.id
        assert not all(both[1]), task.id


async def test_code_that_never_ends_fails_from_there_on():
    code = "function square(x) { while (x < 0); return x * x; }"
    assert await judged("javascript", code, cpu_s=1) == [True, False, False]
    code = "function square(x) { return x < 0 ? new Promise((done) => setTimeout(done, 1e6)) : x * x; }"
    assert await judged("javascript", code, timeout_s=1.0) == [True, False, False]


class TappedSandbox:
    """A real sandbox that notes everything that is sent into it."""

    def __init__(self, sandbox, sent):
        self.sandbox, self.sent = sandbox, sent

    def __getattr__(self, name):
        return getattr(self.sandbox, name)

    async def write(self, path, data, mode=0o644):
        self.sent.append(data.decode())
        await self.sandbox.write(path, data, mode)

    async def exec(self, argv, **options):
        self.sent.append(f"{argv} {options}")
        return await self.sandbox.exec(argv, **options)

    async def open_channel(self, argv):
        channel = await self.sandbox.open_channel(argv)
        request = channel.request

        async def tapped(message, **options):
            self.sent.append(str(message))
            return await request(message, **options)

        channel.request = tapped
        return channel


class TappedBackend:
    name = "tapped"

    def __init__(self):
        self.sent = []

    async def create(self, spec, *, snapshot=None):
        return TappedSandbox(await shared_backend("namespaces").create(spec, snapshot=snapshot), self.sent)


async def test_no_right_value_enters_the_sandbox_of_the_submission_and_calls_go_one_at_a_time():
    backend = TappedBackend()
    task = {
        "function": {"name": "f", "arguments": [["x", "int"]], "returns": "string"},
        "languages": ["javascript"],
    }
    calls = [{"arguments": [77_001], "value": "secret"}, {"arguments": [77_002], "value": "hidden"}]
    function = FunctionTask.of(task)
    judge = HiddenCalls(backend=backend)
    passed = await judge.judge(
        "function f(x) { return ''; }", function.language(), function.signature, function.cases(calls)
    )
    assert passed == [False, False]
    assert [text for text in backend.sent if "77" in text] == ["i77001", "i77002"]
    for word in ("secret", "hidden"):
        assert not any(word in text or word.encode().hex() in text for text in backend.sent)


async def test_the_final_call_says_in_which_of_the_tasks_languages_it_is_written():
    parameters = {"function": SQUARE, "languages": ["c", "javascript"]}

    async def outcome(**arguments):
        return (
            await HiddenCalls().outcome(
                make_trajectory([answered("", **arguments)], truth={"calls": CALLS}, parameters=parameters)
            )
        )["success"]

    assert await outcome(code=RIGHT["c"]) == 1.0
    assert await outcome(code=RIGHT["javascript"], language="javascript") == 1.0
    assert await outcome(code=RIGHT["javascript"], language="python") == 0.0
    assert await outcome() == 0.0


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ({"needs": ("no-such-compiler",)}, "The sandbox's image has no no-such-compiler for C"),
        ({"build": ("gcc", "--no-such-option")}, "fails on harmless code: .*no-such-option"),
        ({"run": "true {name}"}, "fails on a function that only returns its argument: the program ended"),
    ],
)
async def test_a_toolchain_that_does_not_work_is_no_verdict(fault, reason):
    with pytest.raises(JudgeError, match=f"The judge cannot run C code: .*{reason}"):
        await HiddenCalls().judge(RIGHT["c"], replace(LANGUAGES["c"], **fault), Signature.of(SQUARE), cases())


@pytest.mark.parametrize(
    ("truth", "parameters", "reason"),
    [
        ({}, {}, r"no truth\['calls'\]"),
        ({"calls": CALLS}, {"function": SQUARE}, r"parameters\['languages'\] is \(\)"),
        ({"calls": CALLS}, {"languages": ["c"]}, "not a signature"),
        (
            {"calls": [{"arguments": ["2"], "value": 4}]},
            {"function": SQUARE, "languages": ["c"]},
            "x: '2' is not of type int",
        ),
        (
            {"calls": [{"arguments": [2], "value": 2**60}]},
            {"function": SQUARE, "languages": ["c", "javascript"]},
            r"is outside the integers of JavaScript \(node\), from -\d+ to \d+",
        ),
    ],
)
async def test_a_task_that_cannot_be_judged_is_the_judges_trouble(truth, parameters, reason):
    episode = make_trajectory([answered("", code="")], truth=truth, parameters=parameters)
    with pytest.raises(JudgeError, match=reason):
        await HiddenCalls().outcome(episode)


def test_a_case_is_arguments_and_a_value():
    assert cases()[0] == Case([2], 4)
