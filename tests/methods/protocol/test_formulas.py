"""Linear temporal logic over finite traces: the automaton says of a trace what the definition says."""

from __future__ import annotations

import random
from itertools import product

import pytest

from agentgym.methods.protocol.formulas import accepts, atoms_of, negated, parse, start, step

ATOMS = "abc"
WORDS = [word for length in range(1, 7) for word in product(ATOMS, repeat=length)]


def holds(formula, word, at=0) -> bool:
    """The definition, position by position."""
    operator, *parts = formula
    rest = range(at, len(word))
    match operator:
        case "atom":
            return word[at] == parts[0]
        case "no":
            return word[at] != parts[0]
        case "and":
            return all(holds(part, word, at) for part in parts)
        case "or":
            return any(holds(part, word, at) for part in parts)
        case "X":
            return at + 1 < len(word) and holds(parts[0], word, at + 1)
        case "WX":
            return at + 1 == len(word) or holds(parts[0], word, at + 1)
        case "U":
            return any(holds(parts[1], word, k) and all(holds(parts[0], word, j) for j in range(at, k)) for k in rest)
        case "R":
            return all(holds(parts[1], word, k) or any(holds(parts[0], word, j) for j in range(at, k)) for k in rest)
    raise AssertionError(operator)


def random_text(rng: random.Random, depth: int) -> str:
    if depth == 0 or rng.random() < 0.15:
        return rng.choice([*ATOMS, *ATOMS, "True", "False"])
    inner = [random_text(rng, depth - 1) for _ in range(2)]
    return rng.choice(
        [
            f"(not {inner[0]})",
            f"({inner[0]} and {inner[1]})",
            f"({inner[0]} or {inner[1]})",
            *(f"{operator}({inner[0]})" for operator in ("X", "WX", "F", "G")),
            *(f"{operator}({inner[0]}, {inner[1]})" for operator in ("U", "R", "implies")),
        ]
    )


@pytest.mark.parametrize("seed", range(50))
def test_the_automaton_accepts_what_the_definition_does(seed):
    """Every word of length 1 to 6 over three atoms, for 50 random formulas; states are shared between words."""
    formula = parse(random_text(random.Random(seed), 3))
    following = {}
    for word in WORDS:
        state = start(formula)
        for letter in word:
            if (state, letter) not in following:
                following[state, letter] = step(state, [letter])
            state = following[state, letter]
        assert accepts(state) == holds(formula, word), word
    assert len({state for state, _ in following}) < 100


def test_a_negation_holds_where_the_formula_does_not():
    for seed in range(10):
        formula = parse(random_text(random.Random(seed), 3))
        assert all(holds(formula, word) != holds(negated(formula), word) for word in WORDS[:200])


def test_several_atoms_may_hold_at_once():
    state = step(start(parse("a and b and not c")), {"a", "b"})
    assert accepts(state)
    assert not accepts(step(start(parse("a and not b")), {"a", "b"}))


def test_names_that_are_no_identifiers_stand_in_quotes():
    assert atoms_of(parse("F('run-tests') and not call")) == {"run-tests", "call"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("F(a", "cannot be read"),
        ("a + b", "contains 'a \\+ b'. Use only names of tools"),
        ("F(a, b)", "contains 'F\\(a, b\\)'"),
        ("__import__('os')", "contains"),
        ("[a for a in b]", "contains"),
        ("a" * 2000, "2000 characters"),
        ("not " * 240 + "a", None),
        ("(" * 900 + "a" + ")" * 900, "1801 characters"),
        (" and ".join(f"(F(a{i}) or F(b{i}))" for i in range(12)), "simpler one"),
    ],
)
def test_a_formula_that_cannot_be_used_is_refused(text, message):
    if message is None:
        assert parse(text) == ("atom", "a")
        return
    with pytest.raises(ValueError, match=message):
        start(parse(text))
