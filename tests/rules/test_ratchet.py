"""Words, imports, names and formatting that the project is leaving behind: no folder may go back.

What counts, and where it stands: python tests/rules/ratchet.py --list
"""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest
from private_words import private_word_of, private_words_of_text, words_in
from public_line import internal_imports
from ratchet import RULES, allowed, as_toml, count


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_is_not_broken_more_often_than_before(rule):
    """The whole project counts, so that files can move between folders; the folders that rose are shown."""
    numbers, limits = count(rule), Counter(allowed().get(rule, {}))
    assert numbers.total() <= limits.total(), (
        f"risen: {dict(numbers - limits)}. See them all: python tests/rules/ratchet.py --list"
    )


def test_the_table_has_every_rule_and_is_written_by_the_script():
    assert set(allowed()) == set(RULES)
    assert as_toml({rule: Counter(counts) for rule, counts in allowed().items()}) == TABLE_TEXT


TABLE_TEXT = Path(__file__).with_name("allowed.toml").read_text()


def test_private_names_are_seen_wherever_python_binds_a_name():
    code = '''
import numpy as asked
class SqlWorld:
    """A novice in a world."""
    def told(self, lottery, *, one=1):
        self.machine = found = [x for played in ()]
        with open("f") as kept:
            pass
        for place in ():
            said: int = 3
        if (wanted := 2):
            pass
        try:
            pass
        except OSError as shown:
            pass
        match found:
            case [made, *again]:
                pass
        return lambda whole: whole
'''
    names = [name.partition(" ")[0] for _, name in words_in(ast.parse(code), Path("agentgym/invented.py"))]
    expected = "asked SqlWorld told lottery one machine found played kept place said wanted shown made again whole"
    assert sorted(name for name in names if name != "docstring:") == sorted(expected.split())
    assert names.count("docstring:") == 2


@pytest.mark.parametrize(
    "name", ["not_found", "hello_world", "world_size", "state_machine", "test_one_task_is_found", "told_you", "matches"]
)
def test_names_of_the_field_are_left_alone(name):
    assert private_word_of(name) == ""


def test_sentences_of_the_field_are_left_alone():
    assert private_words_of_text("Prints hello world in text worlds of the real world, on any machine.") == []
    assert private_words_of_text("The world of a novice.") == ["world", "novice"]


@pytest.mark.parametrize(
    ("statement", "is_internal"),
    [
        ("from agentgym import Environment", False),
        ("import agentgym", False),
        ("from agentgym.credit import Group", False),
        ("import agentgym.credit", False),
        ("from agentgym import credit", False),
        ("from . import sibling", False),
        ("import numpy", False),
        ("from agentgym.credit.group import Group", True),
        ("import agentgym.credit.group", True),
        ("from agentgym.credit import group", True),
        ("from agentgym import registry_of_nobody", True),
        ("def f():\n    from agentgym.policy.vllm import VllmPolicy", True),
    ],
)
def test_an_import_past_the_public_line_is_seen(statement, is_internal):
    assert bool(list(internal_imports(ast.parse(statement)))) is is_internal
