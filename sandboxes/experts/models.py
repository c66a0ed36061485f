"""The models to ask: scripted ones that are right in their own fields, and wrong in all others."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations

from agentgym import Message, ScriptedPolicy, seed_of
from agentgym.methods.teams import ModelPool, PricedModel

from .knowledge import EASY, FIELDS, SKILLS, question_in

DEAR = 8
"""The price of a question to a model that knows all fields except one."""
UNKNOWN = "I do not know."


@dataclass(frozen=True, slots=True)
class Expert:
    """A model that answers by rule, always the same for the same question.

    Attributes:
        skills: the fields that it knows, besides the easy one that all know.
        price: the price of each question.
        unseen: whether training tasks may not offer it.
    """

    name: str
    skills: frozenset[str]
    price: int
    unseen: bool

    @property
    def note(self) -> str:
        """Return a note for the agent: what the model is good at, and how quick it is."""
        missing = [field for field in SKILLS if field not in self.skills]
        if len(missing) == 1:
            return f"slow, all but {missing[0]}"
        fields = " and ".join(field for field in SKILLS if field in self.skills)
        return f"quick, {fields}" if self.price == 1 else fields

    def answer(self, text: str) -> str:
        """Return the right answer in the model's fields; in other fields a wrong answer that looks right."""
        if (question := question_in(text)) is None:
            return UNKNOWN
        name, match = question
        field = FIELDS[name]
        if (right := field.answer(match)) is None or name == EASY or name in self.skills:
            return right or UNKNOWN
        rng = random.Random(seed_of(self.name, match[0].casefold()))
        others = (field.wrong(rng, right) for _ in range(100))
        return next((wrong for wrong in others if wrong != right), UNKNOWN)


def _experts() -> Iterable[Expert]:
    """Yield an expert for each field, two (at two prices) for each pair of fields, and one for all fields but each.

    No other model knows the combinations of fields that unseen models know.
    """
    unseen_pairs = {("sums", "capitals"), ("units", "rooms"), ("rooms", "prices"), ("capitals", "spelling")}
    for field in SKILLS:
        yield Expert(field, frozenset({field}), 1, unseen=False)
    for pair in combinations(SKILLS, 2):
        for price in (2, 3):
            yield Expert(f"{'-'.join(pair)}-{price}", frozenset(pair), price, unseen=pair in unseen_pairs)
    for field in SKILLS:
        yield Expert(f"no-{field}", frozenset(SKILLS) - {field}, DEAR, unseen=field in ("capitals", "spelling"))


EXPERTS: Mapping[str, Expert] = {expert.name: expert for expert in _experts()}


def _say(expert: Expert, messages: Sequence[Message]) -> Message:
    return Message("assistant", expert.answer(messages[-1].text))


def expert_pool() -> ModelPool:
    """Return all experts as policies, with their price list."""
    return ModelPool(
        {name: ScriptedPolicy(partial(_say, expert), name=name) for name, expert in EXPERTS.items()},
        {
            name: PricedModel(expert.note, price_call=expert.price, unseen=expert.unseen)
            for name, expert in EXPERTS.items()
        },
    )
