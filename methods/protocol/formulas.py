"""Linear temporal logic over finite traces, as a deterministic automaton built by formula progression.

A state says what must hold from here on, as a disjunction of conjunctions of formulas. There are finitely many states,
because all these are parts of the given formula. A trace is a sequence of letters; a letter is the set of atoms that
hold at one turn. A trace is accepted if no obligation is left.

Source: De Giacomo and Vardi 2013, Linear temporal logic and linear dynamic logic on finite traces, IJCAI. Progression:
Bacchus and Kabanza 1998.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import TypeAlias

Formula: TypeAlias = tuple[object, ...]
"""In negation normal form: ("atom" | "no", name), ("and" | "or", f, ...), ("U" | "R", f, g) or ("X" | "WX", f)."""
State: TypeAlias = frozenset[frozenset[Formula]]

TRUE: Formula = ("and",)
FALSE: Formula = ("or",)
NOT_OVER: Formula = ("U", TRUE, TRUE)
OVER: Formula = ("R", FALSE, FALSE)
MAX_CHARS, MAX_CLAUSES = 1_000, 256
_DUAL = {"and": "or", "or": "and", "U": "R", "R": "U", "X": "WX", "WX": "X", "atom": "no", "no": "atom"}
_OPERATORS = {"X": 1, "WX": 1, "F": 1, "G": 1, "U": 2, "R": 2, "implies": 2}


def parse(text: str) -> Formula:
    """Read a formula such as "U(not submit, test) and G(implies(call, X(final)))".

    A name is an atom, and so is a quoted text. Operators are `and`, `or`, `not`, `True`, `False`, `implies(f, g)`,
    X(f) (there is a next turn, and f holds there), WX(f) (f holds in the next turn, if there is one), F(f) (now or
    later), G(f) (from now on), U(f, g) (f until g, which must come) and R(f, g) (g up to and at f's turn, or for ever).

    Raises: ValueError saying what cannot be read.
    """
    if len(text) > MAX_CHARS:
        raise ValueError(f"the formula has {len(text)} characters, but at most {MAX_CHARS} are allowed")
    try:
        return _read(ast.parse(text.strip(), mode="eval").body, text)
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise ValueError(f"the formula {text!r} cannot be read: {error}") from error


def _read(node: ast.expr, text: str) -> Formula:
    match node:
        case ast.Constant(value=bool(value)):
            return TRUE if value else FALSE
        case ast.Constant(value=str(name)) | ast.Name(id=name):
            return ("atom", name)
        case ast.BoolOp(op=op, values=values):
            name = "and" if isinstance(op, ast.And) else "or"
            return (name, *(_read(value, text) for value in values))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return negated(_read(operand, text))
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if _OPERATORS.get(name) == len(args):
            parts = [_read(argument, text) for argument in args]
            if name == "F":
                return ("U", TRUE, parts[0])
            if name == "G":
                return ("R", FALSE, parts[0])
            return ("or", negated(parts[0]), parts[1]) if name == "implies" else (name, *parts)
    raise ValueError(
        f"the formula {text!r} contains {ast.unparse(node)!r}. Use only names of tools, and, or, not, True, False, "
        "X(f), WX(f), F(f), G(f), U(f, g), R(f, g), implies(f, g)"
    )


def negated(formula: Formula) -> Formula:
    """Return the negation, in negation normal form."""
    operator, *parts = formula
    dual = _DUAL[str(operator)]
    return (dual, *parts) if dual in ("atom", "no") else (dual, *(negated(part) for part in parts))  # type: ignore[arg-type]


def atoms_of(formula: Formula) -> set[str]:
    """Return the names in a formula."""
    operator, *parts = formula
    if operator in ("atom", "no"):
        return {str(parts[0])}
    return {name for part in parts for name in atoms_of(part)}  # type: ignore[arg-type]


def start(formula: Formula) -> State:
    """Return the state before the first letter. Raises: ValueError for a formula whose states become too large."""
    return _clauses(formula)


def step(state: State, letter: Iterable[str]) -> State:
    """Return the state after a letter, the set of atoms that hold. Raises: ValueError as `start`."""
    holds = frozenset(letter)
    return _simplest(
        clause for conjunction in state for clause in _all_of([_progressed(part, holds) for part in conjunction])
    )


def accepts(state: State) -> bool:
    """Return whether the trace may end in this state."""
    return any(all(part[0] == "R" for part in conjunction) for conjunction in state)


def _progressed(formula: Formula, holds: frozenset[str]) -> State:
    """Return what must hold from the next letter on if `formula` is to hold from this one on.

    `holds`: this letter, the set of atoms that hold.
    """
    operator, *parts = formula
    inner: list[Formula] = parts  # type: ignore[assignment]
    if operator in ("atom", "no"):
        return _clauses(TRUE if (parts[0] in holds) == (operator == "atom") else FALSE)
    if operator == "X":
        return _clauses(("and", inner[0], NOT_OVER))
    if operator == "WX":
        return _clauses(("or", inner[0], OVER))
    if operator == "and":
        return _all_of([_progressed(part, holds) for part in inner])
    if operator == "or":
        return _simplest(clause for part in inner for clause in _progressed(part, holds))
    first, second = (_progressed(part, holds) for part in inner)
    if operator == "U":
        return _simplest([*second, *_all_of([first, _clauses(formula)])])
    return _all_of([second, _simplest([*first, *_clauses(formula)])])


def _clauses(formula: Formula) -> State:
    operator, *parts = formula
    inner: list[Formula] = parts  # type: ignore[assignment]
    if operator == "and":
        return _all_of([_clauses(part) for part in inner])
    if operator == "or":
        return _simplest(clause for part in inner for clause in _clauses(part))
    return frozenset([frozenset([formula])])


def _all_of(states: Iterable[State]) -> State:
    product: State = frozenset([frozenset()])
    for state in states:
        product = _simplest(left | right for left in product for right in state)
    return product


def _simplest(clauses: Iterable[frozenset[Formula]]) -> State:
    """Return the state without clauses that another clause implies."""
    distinct = set(clauses)
    if len(distinct) > MAX_CLAUSES:
        raise ValueError(f"the formula needs a state with more than {MAX_CLAUSES} alternatives. Write a simpler one")
    return frozenset(clause for clause in distinct if not any(other < clause for other in distinct))
