"""HumanEval-X and MultiPL-E: rows of our own in their published form become calls, or are left out with the reason."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from agentgym import EpisodeManager, ScriptedPolicy, load_task_set
from agentgym.errors import TaskError
from agentgym.registry import load
from agentgym.rewards.hidden_calls import HiddenCalls
from agentgym.sandboxes.languages import LANGUAGES, FunctionTask, Signature
from agentgym.tasks.importers.assertions import assertions_of
from agentgym.tasks.importers.declarations import NoDeclaration, declared, kind_of, kinds_of_values
from agentgym.tasks.importers.literals import Literals, NoLiteral

HERE = Path(__file__).parent
HUMANEVALX, MULTIPLE = (
    dict(zip(languages, map(json.loads, (HERE / name).read_text().splitlines()), strict=True))
    for name, languages in (
        ("humanevalx_rows.jsonl", ("cpp", "go", "java", "javascript")),
        ("multiple_rows.jsonl", ("cpp", "go", "java", "javascript", "rust")),
    )
)
"""One problem of our own, which halves the readings above a limit, in the published form of both data sets."""
BODIES = {
    "cpp": "std::vector<float> out; for (float r : readings) if (r > limit) out.push_back(r / 2); return out; }",
    "go": "out := []float64{}\nfor _, r := range readings { if r > limit { out = append(out, r / 2) } }\nreturn out }",
    "java": "ArrayList<Float> out = new ArrayList<>();\n"
    "for (float r : readings) if (r > limit) out.add(r / 2); return out; } }",
    "javascript": "return readings.filter((r) => r > limit).map((r) => r / 2); }",
    "rust": "readings.into_iter().filter(|r| *r > limit).map(|r| r / 2.0).collect() }",
}
"""What completes the prompts of `MULTIPLE` as they are shown."""
CALLS = [{"arguments": [[1.0, 4.2, 0.1], 0.5], "value": [0.5, 2.1]}, {"arguments": [[], -1], "value": []}]


def imported(tmp_path, importer, *rows):
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    return load("importers", importer)(path)


ROWS = [
    *(("humanevalx", language, row) for language, row in HUMANEVALX.items()),
    *(("multiple", language, row) for language, row in MULTIPLE.items()),
]
BY_DAY = {("humanevalx", "javascript"), ("multiple", "javascript")}
"""Rows whose code `make test` runs too; tests/rewards/test_hidden_calls.py runs code of every language."""


@pytest.mark.parametrize(("importer", "language", "row"), ROWS)
def test_a_row_becomes_calls(tmp_path, importer, language, row):
    (task,) = imported(tmp_path, importer, row)["held_out"]
    function = FunctionTask.of(task.parameters)
    name = "Above" if task.id == "humanevalx/go/0" else "above"
    arguments = [["readings", "list[float]"], ["limit", "float"]]
    assert function.signature == Signature.of({"name": name, "arguments": arguments, "returns": "list[float]"})
    assert task.truth["calls"] == CALLS
    assert "4.2" not in str(task.public())


@pytest.mark.parametrize(
    ("importer", "language", "row"),
    [pytest.param(*row, marks=[] if row[:2] in BY_DAY else [pytest.mark.thorough]) for row in ROWS],
)
@pytest.mark.needs_namespaces
async def test_right_code_passes_the_calls_of_a_row_and_wrong_code_and_an_early_exit_do_not(
    tmp_path, importer, language, row
):
    (task,) = imported(tmp_path, importer, row)["held_out"]
    function = FunctionTask.of(task.parameters)
    if missing := [name for name in LANGUAGES[language].needs if not shutil.which(name)]:
        pytest.skip(f"{', '.join(missing)} is not installed here")
    declaration = task.prompt.partition("\n")[2]
    right = task.truth["reference"] or f"{declaration}\n{BODIES[language]}"
    wrong = right.replace("/ 2", "/ 3").replace("/2", "/3")

    async def passed(code):
        return await HiddenCalls().judge(
            code, function.language(), function.signature, function.cases(CALLS), tolerance=task.truth["tolerance"]
        )

    assert await passed(right) == [True, True]
    assert await passed(wrong) == [False, True]
    if language == "javascript":  # the published test would be content with this
        assert await passed(f"process.exit(0);\n{right}") == [False, False]


@pytest.mark.needs_namespaces
async def test_the_agent_sees_the_rows_declaration_alone_and_its_examples_may_be_tried(tmp_path):
    task_set = imported(tmp_path, "humanevalx", HUMANEVALX["cpp"], HUMANEVALX["javascript"])
    for task in task_set["held_out"]:
        [episode] = await EpisodeManager(ScriptedPolicy([task_set.answer(task)])).collect([task])
        assert episode.success == 1.0, episode.error
        texts = [message.text for message in episode.messages()]
        assert "Keep the declaration that the task gives" in texts[0]
        assert texts[0].count("above") == 0
        assert "above(" in texts[1] or "above =" in texts[1]
    assert task_set["held_out"][0].parameters["examples"] == [{"arguments": [[1.0, 4.0], 2.0], "value": [2.0]}]


JS_TEST = MULTIPLE["javascript"]["tests"]
LOOP = "int main(){ for (int i = 0; i < 9; i++) assert (above({}, i) == above({}, 2)); }"
LEFT_OUT = [
    ("humanevalx", "cpp", {"task_id": "Python/0"}, "the importer humaneval reads Python"),
    ("humanevalx", "cpp", {"test": LOOP}, r"'i\) == above"),
    (
        "humanevalx",
        "javascript",
        {"test": f"{HUMANEVALX['javascript']['test']}\nlet x = above([1], 2); f(x);"},
        "only 2 of its 3 calls are compared with plain values",
    ),
    ("humanevalx", "go", {"prompt": "func Above(x int) (int, error) {\n"}, "does not end with the declaration"),
    ("multiple", "cpp", {"language": "rb"}, "rb is not one of the languages cpp, go"),
    ("multiple", "rust", {"prompt": "fn above(x: f64) -> (i64, i64) {\n"}, r"'\(i64, i64\)' is not supported"),
    ("multiple", "rust", {"prompt": "fn above(x: f64) -> Vec<f64> {\n"}, "the 1 arguments that it declares"),
    ("multiple", "javascript", {"tests": JS_TEST.replace("[], -1.0", "{a: 1}, 2")}, "mix list and map"),
    ("multiple", "javascript", {"tests": JS_TEST.replace("[0.5, 2.1]", "candidate([], 1)")}, "plain value"),
    ("multiple", "javascript", {"tests": "test();"}, "only 0 of its 0 calls"),
    ("multiple", "go", {"prompt": "func above(x []any, y float64) []float64 {\n"}, "'any' is not supported"),
]


@pytest.mark.parametrize(("importer", "language", "change", "reason"), LEFT_OUT)
def test_a_row_that_cannot_be_turned_into_calls_is_left_out_with_the_reason(
    tmp_path, importer, language, change, reason
):
    rows = HUMANEVALX if importer == "humanevalx" else MULTIPLE
    row, good = rows[language] | change, rows["java"]
    with pytest.raises(TaskError, match=f"none of 1 items can be imported: item 0.*{reason}"):
        imported(tmp_path, importer, row)
    with pytest.warns(UserWarning, match=f"1 of 2 items are left out: item 0.*{reason}"):
        assert len(imported(tmp_path, importer, row, good)["held_out"]) == 1


@pytest.mark.parametrize(
    ("importer", "row", "reason"),
    [
        ("humanevalx", {"task_id": "CPP/0"}, "the field 'prompt' is missing"),
        ("humanevalx", {**HUMANEVALX["cpp"], "test": ["a"]}, "the field 'test' is not text"),
        ("multiple", {"name": "a", "language": "js", "prompt": ""}, "the field 'tests' is missing"),
    ],
)
def test_a_row_of_another_data_set_is_refused(tmp_path, importer, row, reason):
    with pytest.raises(TaskError, match=f"item 0: {reason}"):
        imported(tmp_path, importer, row)


def test_an_imported_set_is_the_same_from_its_file(tmp_path):
    task_set = imported(tmp_path, "multiple", *MULTIPLE.values())
    task_set.to_jsonl(tmp_path / "set.jsonl")
    assert load_task_set(str(tmp_path / "set.jsonl")).fingerprint() == task_set.fingerprint()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("-1_000i64", -1000),
        ("(float)2.5f", 2.5),
        ("1e-3", 0.001),
        (r'String::from("é\u{41}\n")', "éA\n"),
        ('"a".to_string()', "a"),
        ("[1.0, 'x', null, true]", [1.0, "x", None, True]),
        ('{a: 1, "b c": [2]}', {"a": 1, "b c": [2]}),
        ("vec![vec![1], vec![]]", [[1], []]),
        ('HashMap::from([(String::from("a"), 1)])', [["a", 1]]),
        ("Some(2)", 2),
        ("None", None),
        ('(std::map<std::string,std::vector<long>>({{"a", {1, 2}}}))', [["a", [1, 2]]]),
        ('std::vector<std::string>({(std::string)"a", (std::string)"b"})', ["a", "b"]),
        ("std::optional<long>(5)", 5),
        ("std::nullopt", None),
        ("new ArrayList<List<Long>>(Arrays.asList(new ArrayList<Long>(Arrays.asList((long)1l))))", [[1]]),
        ('(new HashMap<String,Long>(Map.of("a", 1l, "b", 2l)))', [["a", 1], ["b", 2]]),
        ("new int[][]{{1}, {2, 3}}", [[1], [2, 3]]),
        ("Optional.of(5l)", 5),
        ("[][]int{[]int{1}, {}}", [[1], []]),
        ('map[int]string{1: "a"}', {1: "a"}),
    ],
)
def test_a_value_is_read_as_its_language_writes_it(text, value):
    reader = Literals(text)
    assert reader.value() == value
    assert not reader.text[reader.position :]


@pytest.mark.parametrize(
    "text", ["x", "f(1)", "012", "(1, 2)", "`a`", "new int[5]", "std::string(3, 'a')", "1x", r'"\q"']
)
def test_what_is_no_plain_value_is_refused(text):
    with pytest.raises(NoLiteral, match="is not a plain value or comparison"):
        Literals(text).value()


@pytest.mark.parametrize(
    ("language", "text", "types"),
    [
        ("cpp", "bool f(const std::map<std::string, int>& a, long long b){", "map[string, int] int bool"),
        ("java", "class P { public int[] f(final String[] a, List<Boolean> b) {", "list[string] list[bool] list[int]"),
        ("go", "func f(a, b int, c map[string][]int) *string {", "int int map[string, list[int]] optional[string]"),
        (
            "rust",
            "fn f(mut a: Vec<Option<i64>>, b: &HashMap<i32, f64>) -> bool {",
            "list[optional[int]] map[int, float] bool",
        ),
    ],
)
def test_types_are_read_from_a_declaration(language, text, types):
    assert " ".join(declared(language, text)[2]) == types


def test_types_of_javascript_come_from_the_values():
    rows = [[1, [], None, {"a": [1]}, ""], [2.5, [["x"]], 3, {}, "b"]]
    assert kinds_of_values(rows) == ["float", "list[list[string]]", "optional[int]", "map[string, list[int]]", "string"]
    with pytest.raises(NoDeclaration, match="mix int and string"):
        kinds_of_values([[1], ["1"]])
    with pytest.raises(NoDeclaration, match=r"'std::any'|'any' is not supported"):
        kind_of("std::any")


def test_a_tolerance_is_taken_over_and_an_exact_comparison_beside_it_stays_exact(tmp_path):
    row = HUMANEVALX["javascript"] | {"prompt": "const mean = (xs) => {\n", "example_test": ""}
    tolerant = (
        "console.assert(Math.abs(mean([1, 2]) - 1.5) < 1e-4)\nconsole.assert(Math.abs(mean([200]) - 200) < 1e-4)\n"
    )
    (task,) = imported(tmp_path, "humanevalx", row | {"test": tolerant})["held_out"]
    assert task.truth["tolerance"] == pytest.approx(5e-7)
    assert [call["value"] for call in task.truth["calls"]] == [1.5, 200]
    (task,) = imported(tmp_path, "humanevalx", row | {"test": f"{tolerant}console.assert(mean([3, 4]) === 3.5)"})[
        "held_out"
    ]
    assert task.truth["tolerance"] == 1e-9


CPP_HEAD = "#include<stdio.h>\n#include<math.h>\n#include<string>\nusing namespace std;\n#include<algorithm>\n"
RUST_HEAD = (
    "fn main(){\n }\n\nuse std::{slice::Iter, cmp::{max, self}, mem::replace, collections::{HashSet, HashMap}, "
    "ops::Index, ascii::AsciiExt};\nuse rand::Rng;\nuse regex::Regex;\nuse md5;\nuse std::any::{Any, TypeId};\n\n"
)
GOLDS = {
    "a tolerance beside an exact comparison": {
        "task_id": "CPP/2",
        "prompt": CPP_HEAD + "float truncate_number(float number){\n",
        "canonical_solution": "    return number-int(number);\n}\n",
        "test": "int main(){ assert (truncate_number(3.5) == 0.5);\n"
        "assert (abs(truncate_number(1.33) - 0.33) < 1e-4);\nassert (abs(truncate_number(123.456) - 0.456) < 1e-4); }",
    },
    "the name of a function of the C library": {
        "task_id": "CPP/23",
        "prompt": CPP_HEAD + "int strlen(string str){\n",
        "canonical_solution": "    return str.length();\n}\n",
        "test": 'int main(){ assert (strlen("") == 0); assert (strlen("asdasnakj") == 9); }',
    },
    "imports of crates that are not used": {
        "task_id": "Rust/53",
        "prompt": RUST_HEAD + "fn add(x:i32, y:i32) -> i32{\n",
        "canonical_solution": "    return x + y;\n}\n",
        "test": "#[cfg(test)]\nmod tests {\n use super::*;\n #[test]\n fn test_add() {\n  assert_eq!(add(0, 1), 1);\n"
        "  assert_eq!(add(5, 7), 12);\n }\n}\n",
    },
}


@pytest.mark.needs_namespaces
@pytest.mark.parametrize(
    "what", [pytest.param(what, marks=[pytest.mark.thorough] if "crates" in what else []) for what in GOLDS]
)  # rustc takes seconds of a processor; above it compiles a row of another set
async def test_a_published_gold_is_paid_and_another_solution_is_named(tmp_path, what):
    row = GOLDS[what]
    (task,) = imported(tmp_path, "humanevalx", row)["held_out"]
    language = FunctionTask.of(task.parameters).language()
    if missing := [name for name in language.needs if not shutil.which(name)]:
        pytest.skip(f"{', '.join(missing)} is not installed here")
    judge = HiddenCalls()
    assert await judge.task_fault(task) == ""
    wrong = replace(task, truth={**task.truth, "reference": task.truth["reference"].replace("return ", "return 1 + ")})
    assert "passes 0 of" in await judge.task_fault(wrong)


def test_a_gold_that_needs_a_crate_is_left_out_with_the_reason(tmp_path):
    row = GOLDS["imports of crates that are not used"]
    needs = row | {"canonical_solution": '    let re = Regex::new("x").unwrap();\n    return x;\n}\n'}
    with pytest.warns(UserWarning, match="needs the crate regex"):
        task_set = imported(tmp_path, "humanevalx", row, needs | {"task_id": "Rust/54"})
    assert [task.id for task in task_set["held_out"]] == ["humanevalx/rust/53"]


@pytest.mark.parametrize(
    "claim",
    [
        "f(1) != 3",
        "f(1) == 3 || true",
        "Math.abs(f(1) - 3) > 1",
        "f(1) == f(2)",
        "f(x) == 3",
        "f(1) == 3 + 2",
        "!f(1) == 3",
    ],
)
def test_a_claim_that_is_no_equality_with_a_value_is_refused(claim):
    with pytest.raises(NoLiteral):
        assertions_of("javascript", f"console.assert({claim});", "f")
