"""Bugs for Python sources: of every kind, in one place, and nothing else is changed."""

from __future__ import annotations

import ast

from agentgym.sandboxes.swe.bugs.mutations import KINDS, mutations

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


def test_a_bug_changes_its_place_and_nothing_else():
    by_place = {(m.kind, m.line): m for m in mutations(SOURCE)}
    lines = SOURCE.split("\n")
    for mutation in by_place.values():
        broken = mutation.apply(SOURCE)
        ast.parse(broken)
        assert mutation.parses(SOURCE)
        assert broken != SOURCE
        if len(broken.split("\n")) == len(lines):
            differing = [n for n, (a, b) in enumerate(zip(lines, broken.split("\n"), strict=True), 1) if a != b]
            assert differing == [mutation.line], mutation
    assert by_place["boundary", 9].apply(SOURCE).split("\n")[8] == "    if len(text) < most and text:"
    assert by_place["operator", 9].apply(SOURCE).split("\n")[8] == "    if len(text) <= most or text:"
    assert by_place["branch", 9].apply(SOURCE).split("\n")[8] == "    if not (len(text) <= most and text):"
    assert by_place["call", 10].apply(SOURCE).split("\n")[9] == "        return text"
    assert by_place["constant", 7].apply(SOURCE).split("\n")[6] == "def clip(text: str, most: int = 4) -> str:"
    assert by_place["slice", 11].apply(SOURCE).split("\n")[10] == "    shorter = text[: ]"
    assert by_place["call", 12].apply(SOURCE) == SOURCE.replace('    print("é", shorter)\n', "")
    assert by_place["argument", 13].apply(SOURCE).split("\n")[12] == "    return max(os.sep, shorter)"
    assert by_place["return", 13].apply(SOURCE).split("\n")[12] == "    return None"
    assert by_place["constant", 17].function == "Pair"
    gone = by_place["removed", 21]
    assert gone.function == "Pair.both"
    assert '"""Both."""\n        raise NotImplementedError\n' in gone.apply(SOURCE)
    assert not any(m.line <= 4 for m in by_place.values())  # what a module says at its top


HANDLED = """def read(lines, strict=False):
    total = 0
    for line in lines:
        if not line:
            continue
        try:
            total += int(line)
        except ValueError:
            total = total
        if strict and total < 0:
            raise ValueError(line)
        elif total > 9:
            total = len(line)
            print(line, end="")
        lines.last = total
    return total
"""


def test_there_are_bugs_of_every_kind():
    """What is done about errors, what is kept and whole branches are left out, beside signs and values."""
    of_kind = {}
    for mutation in mutations(HANDLED):
        of_kind.setdefault(mutation.kind, []).append(mutation)
    assert {*of_kind, *(mutation.kind for mutation in mutations(SOURCE))} == set(KINDS)
    unchecked = HANDLED.replace("        if not line:\n            continue\n", "")
    escapes = HANDLED.replace("            total = total\n", "            raise\n")
    assert {m.apply(HANDLED) for m in of_kind["handling"]} == {unchecked, escapes}
    assert of_kind["exception"][0].apply(HANDLED) == HANDLED.replace("raise ValueError", "raise TypeError")
    assert of_kind["loop"][0].apply(HANDLED) == HANDLED.replace("continue", "break")
    assert of_kind["keyword"][0].apply(HANDLED) == HANDLED.replace(', end=""', "")
    assert of_kind["state"][0].apply(HANDLED) == HANDLED.replace("        lines.last = total\n", "")
    branch = HANDLED[HANDLED.index("        elif") : HANDLED.index("        lines.last")]
    assert HANDLED.replace(branch, "") in {m.apply(HANDLED) for m in of_kind["feature"]}


def test_a_bug_that_leaves_no_python_is_known_from_the_function_around_it():
    source = "class A:\n    def f(self, x):\n        return x[1:]\n\n    def g(self):\n        if self: pass; f(self)\n"
    bugs = list(mutations(source))
    assert {m.scope for m in bugs} == {(0, len(source) - 1)}
    for mutation in bugs:
        try:
            ast.parse(mutation.apply(source))
        except SyntaxError:
            assert not mutation.parses(source)
        else:
            assert mutation.parses(source)
    assert not all(m.parses(source) for m in bugs)


def test_what_is_no_python_has_no_bugs():
    assert list(mutations("def (")) == []
    assert list(mutations("\0")) == []
