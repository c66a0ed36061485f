"""Types, equality and the words of values: what the host decides alone."""

from __future__ import annotations

import pytest

from agentgym.sandboxes.languages import LANGUAGES, Signature, ValueType, same_value
from agentgym.sandboxes.languages.wire import from_words, to_words

VALUES = [
    ("int", -(2**63)),
    ("float", 0.1),
    ("float", float("-inf")),
    ("bool", False),
    ("string", 'é"\\\n'),
    ("list[list[bool]]", [[], [True]]),
    ("optional[string]", None),
    ("optional[string]", "null"),
    ("map[int, list[float]]", {-3: [0.5], 4: []}),
    ("map[string, optional[int]]", {"": None, "a b": 2}),
]


@pytest.mark.parametrize(("kind", "value"), VALUES)
def test_a_value_comes_back_as_it_went(kind, value):
    parsed = ValueType.parse(kind)
    parsed.check(value)
    assert str(parsed) == kind
    back = from_words(parsed, " ".join(to_words(parsed, value)))
    assert back == value
    assert same_value(parsed, value, back)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("int", ""),
        ("int", "i"),
        ("int", "i1_0"),
        ("int", "i" + "9" * 5_000),
        ("int", "t"),
        ("int", "i1 i2"),
        ("int", "f0.5"),
        ("bool", "i1"),
        ("bool", "t1"),
        ("float", "f1e99999"),
        ("float", "fnan()"),
        ("float", "s31"),
        ("string", "sff"),
        ("string", "s1"),
        ("string", "n"),
        ("list[int]", "l2 i1"),
        ("list[int]", "l99999999"),
        ("list[int]", "l-1"),
        ("list[int]", "m1 i1 i1"),
        ("map[int, int]", "m2 i1 i1 i1 i2"),
        ("optional[int]", "s"),
        ("int", "i٣"),
    ],
)
def test_data_that_is_no_value_of_the_type_is_refused(kind, text):
    with pytest.raises(ValueError, match=r"is not|occurs twice|unexpected|hex|decode"):
        from_words(ValueType.parse(kind), text)


@pytest.mark.parametrize(
    ("kind", "expected", "value", "same"),
    [
        ("float", 0.3, 0.1 + 0.2, True),
        ("float", 0.3, 0.3001, False),
        ("float", float("nan"), float("nan"), False),
        ("float", float("inf"), float("inf"), True),
        ("list[float]", [1, 2], [1.0], False),
        ("optional[int]", None, 0, False),
        ("map[string, float]", {"a": 1.0}, {"a": 1.0 + 1e-12}, True),
        ("map[string, int]", {"a": 1}, {"b": 1}, False),
        ("map[int, int]", [[1, 2]], {1: 2}, True),
    ],
)
def test_values_are_compared_by_their_type(kind, expected, value, same):
    assert same_value(ValueType.parse(kind), expected, value) is same


@pytest.mark.parametrize(
    "text",
    [
        "",
        "number",
        "list",
        "list[]",
        "list[int",
        "list[int]]",
        "map[int]",
        "map[float, int]",
        "optional[optional[int]]",
        "list[" * 9 + "int" + "]" * 9,
        "int int",
        3,
    ],
)
def test_a_type_that_is_none_is_refused(text):
    with pytest.raises(ValueError, match=r"is not a type|in brackets|the keys of a map|cannot be optional again"):
        ValueType.parse(text)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("int", True),
        ("int", 2**63),
        ("int", 1.0),
        ("float", "1"),
        ("string", "a\0b"),
        ("string", "\ud800"),
        ("list[int]", "12"),
        ("map[string, int]", {1: 2}),
        ("map[string, int]", [["a"]]),
        ("bool", 1),
        ("optional[int]", ""),
    ],
)
def test_a_value_of_another_type_is_refused(kind, value):
    with pytest.raises(ValueError, match="is no"):
        ValueType.parse(kind).check(value)


@pytest.mark.parametrize("name", ["", "f g", "2nd", "select", "x" * 99, "f()", "int", None])
def test_a_name_that_some_language_cannot_have_is_refused(name):
    with pytest.raises(ValueError, match="is not a valid name in every language"):
        Signature.of({"name": name, "arguments": [], "returns": "int"})


def test_every_language_declares_every_type_in_its_own_words():
    everything = "map[string, list[optional[int]]]"
    signature = Signature.of({"name": "f", "arguments": [["x", everything], ["y", "float"]], "returns": "bool"})
    spelled = {
        "c": "bool f(map_string_list_optional_int x, double y)",
        "cpp": "bool f(const std::map<std::string, std::vector<std::optional<long long>>> &x, double y)",
        "go": "func f(x map[string][]*int, y float64) bool",
        "java": "static boolean f(Map<String, List<Optional<Long>>> x, double y)",
        "javascript": "@param {Map<string, Array<number|null>>} x",
        "rust": "fn f(x: HashMap<String, Vec<Option<i64>>>, y: f64) -> bool",
    }
    for name, language in LANGUAGES.items():
        assert spelled[name] in language.stub(signature)
