"""Syntax trees, patches and tool calls compared with a reference: by hand, by property, and on the public files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judging import answered, called, make_trajectory

from agentgym import Call, JudgeError
from agentgym.messages import Result
from agentgym.rewards.ast_similarity import AstSimilarity, similarity
from agentgym.rewards.patch_similarity import PatchSimilarity, changes
from agentgym.rewards.patch_similarity import similarity as patches_alike
from agentgym.rewards.tool_call_match import ExpectedCall, ToolCallMatch, exactly, same, tool_match

DATA = Path(__file__).parents[2] / "../shared/data"
CODE = "def f(x):\n    return [y + 1 for y in x if y > 0]\n"


def submitted(**arguments):
    return [(Call("submit", arguments), Result("ok", name="submit", final=True))]


def test_names_and_constants_do_not_matter_and_structure_does():
    assert similarity(CODE, "def g(items):\n  return [i + 9 for i in items if i > 5]") == 1.0
    assert 0.0 < similarity(CODE, "def f(x):\n    return x") < 0.5
    assert similarity(CODE, "import os") < 0.1


def test_by_hand_one_subtree_of_two_is_shared():
    """`x` is Expr(Name) and Name; `-x` is Expr(UnaryOp), UnaryOp, USub, Name: shared is Name, so 2 * 1 / (2 + 4)."""
    assert similarity("x", "-x") == pytest.approx(2 / 6)


@pytest.mark.parametrize("code", ["def f(:", "(" * 5000, "x = 1\n" * 50_000, "\x00", "-" * 49_000 + "1", ""])
def test_what_cannot_be_parsed_earns_nothing_and_ends(code):
    assert AstSimilarity().outcome(make_trajectory(submitted(code=code), truth={"reference": CODE})) == {
        "ast_similarity": 0.0
    }


def test_pasting_every_construct_there_is_earns_little():
    everything = CODE + "\n".join(f"class C{n}:\n  def m(self):\n    while True: break" for n in range(50))
    assert similarity(everything, CODE) < 0.2


def test_without_a_reference_nothing_is_compared():
    with pytest.raises(JudgeError, match="has no Python code in truth"):
        AstSimilarity().outcome(make_trajectory(submitted(code=CODE), truth={"reference": "def f(:"}))


PATCH = """diff --git a/lib/a.py b/lib/a.py
--- a/lib/a.py
+++ b/lib/a.py
@@ -1,3 +1,3 @@
 def f(x):
-    return x
+    return x + 1

"""


def patched(text, gold=PATCH):
    return PatchSimilarity().outcome(make_trajectory(submitted(patch=text), truth={"patch": gold}))["patch_similarity"]


def test_the_same_patch_is_one_also_in_a_fence_and_with_other_context():
    assert patched(PATCH) == 1.0
    assert patched(f"```diff\n{PATCH}```") == 1.0
    assert patched(PATCH.replace(" def f(x):", " def g(x):")) == 1.0


def test_a_gold_patch_of_a_repository_task_is_one_though_the_environment_hands_it_in():
    """The tool `submit` of repositories takes no patch: the environment makes it, and the result shows it."""
    done = [(Call("submit", {}), Result(f"Submitted. Your changes:\n{PATCH}", name="submit", final=True))]
    assert PatchSimilarity().outcome(make_trajectory(done, truth={"gold": PATCH})) == {"patch_similarity": 1.0}


@pytest.mark.parametrize("text", ["", "I fixed it.", "--- a/x\n+++ b/x\n", "@@ -1 +1 @@\n-a\n+b", "+" * 300_000])
def test_what_is_no_patch_is_worth_minus_one(text):
    assert patched(text) == -1.0


def test_a_file_that_only_one_touches_counts_nothing():
    other_patch = PATCH.replace("lib/a.py", "lib/b.py")
    assert patched(other_patch) == 0.0
    assert patched(PATCH + other_patch) == 0.5


def test_removed_lines_that_look_like_headers_stay_inside_their_hunk():
    changed_lines = changes("--- a/q.sql\n+++ b/q.sql\n@@ -1,2 +1 @@\n--- a comment\n keep\n")
    assert changed_lines == {"q.sql": "--- a comment"}


def test_a_long_patch_is_compared_by_lines_and_in_little_time():
    lines = [f"+line number {n}" for n in range(4000)]
    long = "--- a/x\n+++ b/x\n@@ -0,0 +1,4000 @@\n" + "\n".join(lines)
    assert patched(long, long) == 1.0


@pytest.mark.skipif(not (DATA / "swebench_format_12").is_dir(), reason="no SWE-bench file in ../shared/data")
def test_real_gold_patches_are_read_equal_themselves_and_differ_from_each_other():
    rows = [json.loads(line) for line in (DATA / "swebench_format_12/instances.jsonl").read_text().splitlines()]
    patches = [changes(row["patch"]) for row in rows]
    assert len(patches) == 12
    assert all(patches)
    assert all(patches_alike(a, a) == 1.0 for a in patches)
    assert all(patches_alike(a, b) < 0.9 for n, a in enumerate(patches) for b in patches[:n])


EXPECTED = [ExpectedCall("f", {"a": [1], "b": ["x"]}), ExpectedCall("g", {"c": [2]})]


def test_toolrl_by_hand():
    """S_max = 1 + 2 + 3 = 6. f with a right and b wrong: 1/2 names; names of arguments 1, values 1; in all 2.5."""
    calls = [Call("f", {"a": 1, "b": "y"})]
    assert tool_match(calls, EXPECTED) == pytest.approx(6 * 2.5 / 6 - 3)
    assert tool_match([Call("g", {"c": 2}), Call("f", {"a": 1, "b": "X "})], EXPECTED) == pytest.approx(3.0)
    assert tool_match([Call("h", {})], EXPECTED) == -3.0


def validate_components(*calls, expected):
    return ToolCallMatch().outcome(
        make_trajectory([called(name, **arguments) for name, arguments in calls], truth={"calls": expected})
    )


def test_exactly_the_wanted_calls_in_any_order_are_a_success_and_one_more_is_none():
    expected = [{"name": "f", "arguments": {"a": 1}}, {"name": "f", "arguments": {"a": 2}}]
    first, second = ("f", {"a": 1}), ("f", {"a": 2})
    assert validate_components(second, first, expected=expected)["success"] == 1.0
    assert validate_components(first, expected=expected)["success"] == 0.0
    assert validate_components(first, first, expected=expected)["success"] == 0.0
    assert validate_components(first, second, ("f", {"a": 3}), expected=expected)["success"] == 0.0


def test_trying_every_value_is_wrong():
    expected = [{"name": "f", "arguments": {"a": 7}}]
    assert validate_components(*(("f", {"a": n}) for n in range(9)), expected=expected)["success"] == 0.0
    assert validate_components(*(("f", {"a": n}) for n in range(60)), expected=expected) == {
        "success": 0.0,
        "tool_match": -3.0,
    }


def test_no_call_is_right_where_none_is_wanted():
    judge = ToolCallMatch()
    assert judge.outcome(make_trajectory("None of my tools can do that.", truth={"calls": []}))["success"] == 1.0
    assert judge.outcome(make_trajectory([called("f")], truth={"calls": []}))["success"] == 0.0
    assert judge.outcome(make_trajectory(truth={"calls": []}))["success"] == 0.0


def test_optional_arguments_may_be_left_out_and_accepted_values_are_all_right():
    expected = [{"name": "f", "accepted": {"a": [1, 2], "u": ["m", "metre"]}, "optional": ["u"]}]
    assert validate_components(("f", {"a": 2}), expected=expected) == {"success": 1.0, "tool_match": pytest.approx(3.0)}
    assert validate_components(("f", {"a": 2, "u": "Metre"}), expected=expected)["success"] == 1.0
    assert validate_components(("f", {"a": 2, "u": "foot"}), expected=expected)["success"] == 0.0
    assert validate_components(("f", {"u": "m"}), expected=expected)["success"] == 0.0


@pytest.mark.parametrize(
    ("left", "right", "equal"),
    [
        (1, 1.0, True),
        (True, 1, False),
        ("1", 1, False),
        ([1, "A"], [1.0, "a"], True),
        ({"k": 1}, {"k": 2}, False),
        (None, None, True),
    ],
)
def test_values_are_equal_by_kind_and_value(left, right, equal):
    assert same(left, right) is equal


@given(st.permutations([("f", 1), ("f", 2), ("g", 1), ("g", 2)]))
def test_the_order_of_calls_never_matters(order):
    expected = [ExpectedCall(name, {"a": [value]}) for name, value in [("f", 1), ("f", 2), ("g", 1), ("g", 2)]]
    calls = [Call(name, {"a": value}) for name, value in order]
    assert exactly(calls, expected)
    assert tool_match(calls, expected) == pytest.approx(3.0)


@pytest.mark.parametrize("truth", [None, {}, {"calls": "f"}, {"calls": [{"name": "f"}]}, {"calls": [3]}])
def test_a_truth_without_calls_cannot_be_judged(truth):
    with pytest.raises(JudgeError):
        ToolCallMatch().outcome(make_trajectory([answered("x")], truth=truth))


@pytest.mark.skipif(not (DATA / "bfcl").is_dir(), reason="no BFCL files in ../shared/data")
def test_all_800_gold_answers_of_bfcl_are_right_and_each_is_wrong_with_a_call_less_or_another_name():
    """Simple 400, multiple 200, parallel 200. An empty text among the accepted values means: may be left out."""
    counts = {}
    for category in ("simple_python", "multiple", "parallel"):
        lines = (DATA / f"bfcl/possible_answer/BFCL_v4_{category}.json").read_text().splitlines()
        counts[category] = len(lines)
        for line in lines:
            rows = [(name, accepted) for call in json.loads(line)["ground_truth"] for name, accepted in call.items()]
            expected = [
                {
                    "name": name,
                    "accepted": accepted,
                    "optional": [argument for argument, values in accepted.items() if "" in values],
                }
                for name, accepted in rows
            ]
            gold = [
                (name, {argument: values[0] for argument, values in accepted.items() if values[0] != ""})
                for name, accepted in rows
            ]
            assert validate_components(*gold, expected=expected) == {
                "success": 1.0,
                "tool_match": pytest.approx(3.0),
            }, line
            renamed = [*gold[:-1], (gold[-1][0] + "_", gold[-1][1])]
            assert validate_components(*renamed, expected=expected)["success"] == 0.0
            assert validate_components(*gold, gold[0], expected=expected)["success"] == 0.0
    assert counts == {"simple_python": 400, "multiple": 200, "parallel": 200}
