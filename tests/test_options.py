"""What a class of options says of its fields is written once, under each field, and help, pages and errors read it."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from pydantic import ValidationError

from agentgym.options import Count, Section, explain_refusal, field_docs, validated_dataclass


class Base(Section):
    """Options of a base."""

    steps: Count = 1
    """How many steps are
    taken. 0 is refused.

    This paragraph is for Python alone."""
    plain: int = 0


class Child(Base):
    """Options that add to those of the base."""

    documented_by = (ValidationError,)

    plain: int = 1
    """Now it has a text."""
    inner: dict[str, Base] = {}
    """Sections by name."""


class Explained(Section):
    """Options whose texts stand elsewhere."""

    documented_by = (Child,)

    steps: Count = 3
    inner: str = ""
    """Here it is something else."""


@validated_dataclass(kw_only=True)
class Checked:
    """A checked dataclass."""

    share: Count = 1
    """How much is taken. More is faster."""
    name: str = ""


@dataclass(slots=True)
class Plain:
    """A dataclass of the standard library."""

    index: int
    """The number of the record."""


def test_the_first_paragraph_under_a_field_is_its_text():
    assert field_docs(Base) == {"steps": "How many steps are taken. 0 is refused."}
    assert field_docs(Plain) == {"index": "The number of the record."}
    assert field_docs(Checked) == {"share": "How much is taken. More is faster."}


def test_texts_are_inherited_and_may_stand_in_another_class():
    assert field_docs(Child) == {
        "steps": "How many steps are taken. 0 is refused.",
        "plain": "Now it has a text.",
        "inner": "Sections by name.",
    }
    assert field_docs(Explained) == {
        "steps": "How many steps are taken. 0 is refused.",
        "inner": "Here it is something else.",
    }


def test_a_class_without_source_has_no_texts():
    namespace = {"__name__": "made.of.text", "__annotations__": {"steps": int}}
    assert field_docs(type("Made", (), namespace | {"__module__": "made.of.text"})) == {}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"steps": 0}, "steps = 0: Input should be greater than 0 (steps: How many steps are taken.)"),
        ({"step": 2}, "there is no key 'step'. Did you mean 'steps'? (steps: How many steps are taken.)"),
        ({"plan": 2}, "there is no key 'plan'. Did you mean 'plain'? (plain: Now it has a text.)"),
        ({"else": 2}, "there is no key 'else'. Known: steps, plain, inner."),
        ({"inner": {"a": {"steps": -1}}}, "inner.a.steps = -1: Input should be greater than 0 (steps: How many steps"),
        ({"inner": {"a": {"step": 1}}}, "there is no key 'inner.a.step'. Did you mean 'steps'?"),
        ({"inner": {"steps": 1}}, "inner.steps = 1: Input should be a valid dictionary"),
        ({"inner": 3}, "inner = 3: Input should be a valid dictionary (inner: Sections by name.)"),
    ],
)
def test_a_refused_key_is_named_with_its_value_and_its_meaning(data, message):
    with pytest.raises(ValidationError) as caught:
        Child.model_validate(data)
    assert explain_refusal(caught.value, Child).startswith(message)


def test_a_refused_field_of_a_checked_dataclass_is_named_with_its_meaning():
    with pytest.raises(ValueError, match=r"Checked.share is 0: input should be greater than 0 \(share: How much is ta"):
        Checked(share=0)
    with pytest.raises(TypeError, match=r"no field 'shares'. Did you mean 'share'\? \(share: How much is taken.\)"):
        Checked(shares=1)
    with pytest.raises(ValueError, match=r"Checked.name is 3: input should be a valid string.$"):
        Checked(name=3)
