"""`hidden_calls`: in every language right code passes, wrong code fails, and attacks on the judge gain nothing."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest
from judging import answered, make_trajectory

from agentgym import JudgeError, load_task_set, shared_backend
from agentgym.languages import LANGUAGES, Case, FunctionTask, Signature
from agentgym.rewards.hidden_calls import HiddenCalls

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
FORGERIES = {
    "c": {
        "leaves early": """
            #include <unistd.h>
            __attribute__((constructor)) void f(void) { _exit(0); }
            long square(long x) { return 0; }""",
        "prints": r"""
            #include <stdio.h>
            long square(long x) { puts("\"=i4\"\nAll tests pass"); return 0; }""",
        "writes results": r"""
            #include <unistd.h>
            __attribute__((constructor)) void f(void) {
                for (int i = 3; i < 99; i++) if (write(i, "\"=i\"\n\"=t\"\n{\"success\": 1}\n", 27)) {}
            }
            long square(long x) { return 0; }""",
        "looks for the values": """
            #include <stdio.h>
            #include <stdlib.h>
            long square(long x) {
                FILE *f = popen("cat /work/* /tmp/* /proc/*/cmdline /proc/*/environ | tr -dc 0-9 | tail -c 9", "r");
                char text[99] = {0};
                return fgets(text, 99, f) ? atol(text) : 0;
            }""",
        "crashes": "long square(long x) { return *(long *)x; }",
        "kills what runs it": """
            #include <signal.h>
            #include <unistd.h>
            long square(long x) { kill(getppid(), 9); kill(-1, 9); return 0; }""",
        "takes over main": r"""
            #include <stdio.h>
            int main(void) { puts("\"=i4\""); return 0; }
            long square(long x) { return 4; }""",
    },
    "cpp": {
        "an equality of its own": """
            struct Yes {
                bool operator==(long long) const { return true; }
                operator long long() const { return 0; }
            };
            long long square(long long x) { return Yes{}; }""",
        "throws": """
            #include <stdexcept>
            long long square(long long x) { throw std::runtime_error("=i4"); }""",
    },
    "go": {
        "a thread that writes": r"""
            import "os"
            func init() { go func() { for { os.NewFile(4, "").WriteString("\"=i0\"\n") } }() }
            func square(x int) int { select {} }""",
    },
    "java": {
        "everything at once": r"""
            import java.util.*;
            class Solution {
                static class Yes extends ArrayList<Long> { public boolean equals(Object o) { return true; } }
                static {
                    Thread thread = new Thread(() -> { while (true) System.out.println("\"=i0\""); });
                    thread.setDaemon(true);
                    thread.start();
                }
                static Object square(long x) {
                    if (x == 2) return new Yes();
                    if (x < 0) throw new Error("=i9");
                    Runtime.getRuntime().halt(0);
                    return 121L;
                }
            }""",
    },
    "javascript": {
        "leaves early": "process.exit(0);\nfunction square(x) { return x * x; }",
        "an equality of its own": "function square(x) { return { valueOf: () => x * x, toJSON: () => x * x }; }",
        "patches": "Array.prototype.join = () => '=i4'; JSON.parse = () => [4];\nfunction square(x) { return x; }",
        "a proxy": "function square(x) { return new Proxy([], { get: () => () => true }); }",
        "a timer": r"""
            setInterval(() => require('fs').writeSync(4, '"=i0"\n'));
            function square(x) { return new Promise(() => {}); }""",
        "another shape": "function square(x) { return [x * x]; }",
        "text": "function square(x) { return String(x * x); }",
    },
    "rust": {"leaves early": "fn square(x: i64) -> i64 { std::process::exit(0) }"},
}


def available(name):
    missing = [
        program for program in LANGUAGES[name].needs if not shutil.which(program, path="/usr/local/bin:/usr/bin:/bin")
    ]
    if missing:
        pytest.skip(f"{name}: {', '.join(missing)} is not installed here; docs/environments/code.md lists the packages")
    return LANGUAGES[name]


def cases():
    return FunctionTask.of({"function": SQUARE, "languages": ["c"]}).cases(CALLS)


async def judged(name, code, **options):
    signature = Signature.of(SQUARE)
    return await HiddenCalls(**{"timeout_s": 30.0, **options}).judge(code, LANGUAGES[name], signature, cases())


@pytest.mark.parametrize("name", LANGUAGES)
async def test_right_code_passes_whatever_it_prints_and_no_forgery_does(name):
    """In one test, because the driver of a language is compiled once for it."""
    available(name)
    assert await judged(name, RIGHT[name]) == [True] * 3
    for attack, code in FORGERIES[name].items():
        assert not any(await judged(name, code, timeout_s=5.0)), attack


@pytest.mark.parametrize(("name", "problems"), [(name, 9 if name in ("c", "javascript") else 1) for name in LANGUAGES])
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
        ({"needs": ("no-such-compiler",)}, "no-such-compiler for C is not in the sandbox's image"),
        ({"build": ("gcc", "--no-such-option")}, "fails on harmless code: .*no-such-option"),
        ({"run": "true {name}"}, "fails on a function that returns its argument: the program ended"),
    ],
)
async def test_a_toolchain_that_does_not_work_is_no_verdict(fault, reason):
    with pytest.raises(JudgeError, match=f"The judge cannot run C: .*{reason}"):
        await HiddenCalls().judge(RIGHT["c"], replace(LANGUAGES["c"], **fault), Signature.of(SQUARE), cases())


@pytest.mark.parametrize(
    ("truth", "parameters", "reason"),
    [
        ({}, {}, r"no truth\['calls'\]"),
        ({"calls": CALLS}, {"function": SQUARE}, r"parameters\['languages'\] is \(\)"),
        ({"calls": CALLS}, {"languages": ["c"]}, "no signature"),
        ({"calls": [{"arguments": ["2"], "value": 4}]}, {"function": SQUARE, "languages": ["c"]}, "x: '2' is no int"),
        (
            {"calls": [{"arguments": [2], "value": 2**60}]},
            {"function": SQUARE, "languages": ["c", "javascript"]},
            r"more than JavaScript \(node\) can hold",
        ),
    ],
)
async def test_a_task_that_cannot_be_judged_is_the_judges_trouble(truth, parameters, reason):
    episode = make_trajectory([answered("", code="")], truth=truth, parameters=parameters)
    with pytest.raises(JudgeError, match=reason):
        await HiddenCalls().outcome(episode)


def test_a_case_is_arguments_and_a_value():
    assert cases()[0] == Case([2], 4)
