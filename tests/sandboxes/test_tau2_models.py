"""The stand-in for pydantic in the sandbox does what pydantic does, on models such as tau2-bench's domains have."""

from __future__ import annotations

import datetime
import importlib
import json
import string
from types import SimpleNamespace

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytestmark = pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")  # pydantic says that it dumps what is
stand_in = importlib.import_module("agentgym.sandboxes.tau2.guest.models")
MODELS = """
import datetime
from enum import Enum
from typing import Annotated, Any, Dict, List, Literal, Optional, Union

class Colour(str, Enum):
    RED = "red"
    BLUE = "blue"

Grade = Annotated[Literal["low", "high"], Field(description="How good")]

class Base(BaseModel):
    name: str
    source: str = Field(description="From where")

class Cash(Base):
    source: Literal["cash"]
    amount: float = Field(description="How much")

class Card(Base):
    source: Literal["card"] = Field(description="A card")
    number: int

class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")
    day: datetime.date = Field(datetime.date(2025, 1, 1), description="Day")
    moment: Optional[datetime.datetime] = None
    colour: Colour = Field(default="red", validate_default=True)
    later: datetime.datetime = Field(datetime.date(2025, 1, 1))

class Everything(BaseModel):
    text: str
    count: int
    part: float
    flag: bool
    kind: Literal["a", "b", "c"]
    grade: Grade = "low"
    level: Annotated[Optional[int], Field(description="Level", default=None)]
    colours: Dict[Colour, int] = Field(default_factory=lambda: {Colour.RED: 1})
    prices: Annotated[dict[Grade, float], Field(description="By grade")] = {}
    pay: Union[Cash, Card]
    pays: List[Union[Cash, Card]] = []
    strict: Strict = Field(default_factory=Strict)
    extra: Any = None
    ways: Dict[str, Union[Cash, Card]] = {}
    old: str | None = None
    rows: List[Dict[str, int]] = Field([], description="Rows")
"""


def models_of(library):
    names = {name: getattr(library, name) for name in ("BaseModel", "Field", "ConfigDict", "ValidationError")}
    space = {"__name__": "models_of_a_domain", **names}
    exec(compile(MODELS, "models", "exec", dont_inherit=True), space)
    return SimpleNamespace(**space)


REAL, OURS = models_of(pydantic), models_of(stand_in)
texts = st.one_of(
    st.text(string.printable, max_size=6),
    st.sampled_from(
        ["a", "b", "low", "high", "red", "blue", "true", "Off", "Y", " 7 ", "+1", "1.0", "1_0", "1e3", "-0"]
    ),
)
moments = st.one_of(
    st.dates().map(str),
    st.datetimes().map(str),
    st.datetimes().map(datetime.datetime.isoformat),
    st.sampled_from(["2025-02-30", "2025-1-1", "2025-01-01T00:00:00", "2025-01-01T00:00:00Z", "2025-01-01 10:00"]),
    st.dates(),
    st.datetimes(),
)
numbers = st.one_of(
    st.integers(-3, 3), st.integers(), st.floats(allow_nan=False), st.booleans(), st.sampled_from([0.0, 1.0, 2.5])
)
anything = st.recursive(
    st.one_of(st.none(), texts, numbers),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=6,
)
ways = st.one_of(
    st.fixed_dictionaries(
        {"name": texts, "source": st.sampled_from(["cash", "card", "coin"])},
        optional={
            "amount": numbers,
            "number": numbers,
            "more": anything,
        },
    ),
    anything,
)
stricts = st.one_of(
    st.fixed_dictionaries(
        {},
        optional={
            "day": moments,
            "moment": moments,
            "colour": texts,
            "later": moments,
            "unknown": texts,
        },
    ),
    anything,
)
complete = st.fixed_dictionaries(
    {
        "text": st.text(max_size=5),
        "count": st.integers(),
        "part": st.floats(allow_nan=False),
        "flag": st.booleans(),
        "kind": st.sampled_from(["a", "b"]),
        "pay": st.just({"name": "x", "source": "cash", "amount": 3}),
    }
)
changes = st.fixed_dictionaries(
    {},
    optional={
        "text": anything,
        "count": st.one_of(numbers, texts),
        "part": st.one_of(numbers, texts),
        "flag": st.one_of(numbers, texts),
        "kind": anything,
        "grade": texts,
        "level": st.one_of(st.none(), numbers, texts),
        "colours": st.dictionaries(st.one_of(texts, st.sampled_from(["red", "blue"])), numbers, max_size=2),
        "prices": st.dictionaries(st.sampled_from(["low", "high", "none"]), numbers, max_size=2),
        "pay": ways,
        "pays": st.lists(ways, max_size=2),
        "strict": stricts,
        "extra": anything,
        "ways": st.dictionaries(st.text(max_size=2), ways, max_size=2),
        "old": st.one_of(st.none(), texts),
        "rows": st.lists(st.dictionaries(st.text(max_size=2), numbers, max_size=2), max_size=2),
        "unknown": anything,
    },
)


def made_by(models, values):
    """The model as text that tells types apart, and its JSON; or where its faults are."""
    try:
        model = models.Everything.model_validate(values)
    except models.ValidationError as error:
        paths = [each["loc"] for each in error.errors()] if models is REAL else [path for path, _ in error.faults]
        return str(error).splitlines()[0], paths
    dumped = model.model_dump()
    return repr(model), repr(dumped), json.dumps(dumped, sort_keys=True, default=str), str(model)


@given(complete, changes)
def test_it_takes_refuses_and_converts_what_pydantic_does(values, change):
    assert made_by(OURS, {**values, **change}) == made_by(REAL, {**values, **change})


def test_models_copy_compare_and_change_as_pydantics_do():
    seen = []
    for models in (REAL, OURS):
        cash = models.Cash(name="x", source="cash", amount="3")
        first = models.Everything(text="t", count=2.0, part=1, flag="no", kind="a", pay=cash)
        shallow, deep = first.model_copy(), first.model_copy(deep=True)
        assert shallow.pay is cash is first.pay
        assert deep.pay is not cash
        assert first == deep
        assert first != cash
        first.count = "unchecked"
        first.strict.colour = models.Colour.BLUE
        first.ways["y"] = {"name": 1}
        with pytest.raises(ValueError, match='"Everything" object has no field "no_such"'):
            first.no_such = 1
        assert models.Everything(text="t", count=1, part=1, flag=1, kind="a", pay=cash).ways == {}
        assert models.Strict(day="2025-01-02").model_dump_json() == models.Strict(day="2025-01-02").model_dump_json()
        seen.append([repr(first), repr(deep), first != deep, repr(first.model_dump()), cash.model_dump_json(indent=4)])
    assert seen[0] == seen[1]


@pytest.mark.parametrize(
    "source",
    [
        "Field(1, ge=0)",
        "ConfigDict(frozen=True)",
        "ConfigDict(extra='allow')",
        "type('M', (BaseModel,), {'__annotations__': {'x': bytes}})",
        "type('M', (BaseModel,), {'__annotations__': {'x': int | str}})",
        "type('M', (BaseModel,), {'__annotations__': {'x': dict[str, set[int]]}})",
    ],
)
def test_what_it_does_not_know_is_refused_when_it_is_written(source):
    names = {name: getattr(stand_in, name) for name in ("BaseModel", "Field", "ConfigDict")}
    with pytest.raises((NotImplementedError, TypeError), match=r"not supported in the sandbox|unexpected keyword"):
        eval(source, names)
    with pytest.raises(ImportError, match=r"pydantic\.model_validator is not supported"):
        stand_in.model_validator  # noqa: B018
    assert not hasattr(stand_in, "__path__")
