"""Generate the customers: their wishes and knowledge, the moves that serve them, and the required final state."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from functools import cache, partial
from typing import Any

from agentgym import Call, Message, Task, TaskSet, load, seed_of

from ..generator import TaskGenerator, TaskSlot
from .requests import HELD_OUT, REQUESTS, Desk

NAME, NAME_SHORT, ENVIRONMENT = "service/desk-v1", "service/short-v1", "agentgym/service-v1"
SIZES = {"train": 900, "validation": 90, "unseen_records": 180, "unseen_requests": 180}
SIZES_SHORT = {"train": 3_000, "validation": 120, "unseen_records": 300}
SEEDS = {"train": range(30), "validation": range(30, 34), "held_out": range(34, 42)}
"""Seeds of the records of each split. No two splits share a seed."""
ERRING = {"mistakes": 0.3, "noise": 0.1}
"""The mistakes of customers in tasks of level 3."""
LOOK = {"retail": "orders_of", "travel": "bookings_of"}
"""The tool to call once the customer is known, by domain."""
PERSONAS = (
    "You are friendly and brief.",
    "You are in a hurry.",
    "You are polite and a little confused.",
    "You are tired.",
)


@cache
def task_set(seed: int = 0) -> TaskSet:
    """Customers in retail, travel and telecom, a third each. The seed chooses the customers and what they want.

    A task of level 1 has one request, of level 2 two, of level 3 two of a customer who makes mistakes. Tags name level
    and domain, such as `level_1` and `retail`. All held-out tasks have records that no training task has; they carry
    the tag `unseen_records` (nothing else is new) or `unseen_requests` (one request of a kind that no training task
    has).
    """
    generator = TaskGenerator(NAME, SIZES, seed)
    return TaskSet(NAME, generator.splits(_task), oracle=oracle, imperfect_oracle=imperfect_oracle)


@cache
def task_set_short(seed: int = 0) -> TaskSet:
    """Customers of a telephone company with one request each, for tiny models.

    Held-out tasks carry the tag `unseen_records`.
    """
    generator = TaskGenerator(NAME_SHORT, SIZES_SHORT, seed)
    splits = generator.splits(partial(_task, domains=("telecom",), levels=1))
    return TaskSet(NAME_SHORT, splits, oracle=oracle, imperfect_oracle=hasty_oracle)


def _task(rng: random.Random, slot: TaskSlot, domains: Sequence[str] = tuple(REQUESTS), levels: int = 3) -> Task | None:
    domain, level = domains[slot.index % len(domains)], 1 + slot.index // len(domains) % levels
    seeds, records = SEEDS[slot.split], f"service/{domain}"
    seed = seeds[rng.randrange(len(seeds))]
    environment = load("environments", ENVIRONMENT)()
    environment.choose(domain)
    environment.open_records(records, seed)
    customer = rng.choice(list(environment.store.rows("customers")))
    desk = Desk(rng, environment, domain, customer)
    _identify(desk)
    kinds = _kinds(rng, domain, min(level, 2), new=slot.stratum == "unseen_requests")
    try:
        requests, request_facts = [], []
        known, desk.facts = desk.facts, {}
        for kind in kinds:
            requests.append(REQUESTS[domain][kind](desk))
            request_facts.append(desk.facts)
            desk.facts = {}
    except (IndexError, ValueError):  # the customer has nothing that this request could be about
        return None
    changes = environment.store.changes()
    if len(set(requests)) < len(requests) or not (changes or desk.must_tell):
        return None
    wishes: dict[str, Any] = {
        "persona": f"{rng.choice(PERSONAS)} Your name is {customer['name']}.",
        "wants": _wants(known, requests, request_facts),
        "requests": requests,
        "facts": known,
        "request_facts": request_facts,
    }
    if domain == "telecom":
        wishes["phone_id"] = customer["id"]
        known["telephone"] = "I have it in my hand."
    goal = sorted(changes)
    parameters = {"domain": domain, "records": records, "seed": seed, "goal": goal, "customer": wishes}
    return Task(
        id=slot.id,
        environment=ENVIRONMENT,
        prompt=requests[0],
        parameters={**parameters, **({"behaviour": ERRING} if level == 3 else {})},
        truth={"changes": goal, "told": desk.must_tell, "moves": json.dumps(desk.moves)},
        split=slot.split,
        tags=(domain, f"level_{level}", *slot.tags),
        difficulty=float(level),
    )


def _wants(known: Mapping[str, str], requests: Sequence[str], request_facts: Sequence[Mapping[str, str]]) -> str:
    """Return the instructions for a policy that plays the customer: each request, with the facts that the customer
    knows.
    """
    sentences = []
    for request, facts in zip(requests, request_facts, strict=True):
        answers = " ".join(dict.fromkeys(facts.values()))
        sentences.append(f"{request} (If you are asked: {answers})" if answers else request)
    return f"You want this, one after the other: {' '.join(sentences)} You know: {' '.join(known.values())}"


def _kinds(rng: random.Random, domain: str, count: int, *, new: bool) -> list[str]:
    """Return kinds of requests that training tasks have; if `new`, one of the kinds is one that they do not have."""
    known = [kind for kind in REQUESTS[domain] if (domain, kind) not in HELD_OUT]
    unknown = [kind for kind in REQUESTS[domain] if (domain, kind) in HELD_OUT]
    kinds = rng.sample(known, count - new) + (rng.sample(unknown, 1) if new else [])
    rng.shuffle(kinds)
    return kinds


def _identify(desk: Desk) -> None:
    """Ask who the customer is, and look up the records."""
    customer = desk.customer
    if desk.app == "telecom":
        desk.facts["number"] = f"My number is {customer['number']}."
        desk.say("What is your telephone number?")
        desk.call("find_customer", number=customer["number"])
        return
    desk.facts |= {"name": f"My name is {customer['name']}.", "mail": f"It is {customer['email']}."}
    if desk.app == "retail":
        desk.facts["zip"] = f"The zip code is {customer['zip']}."
    desk.say("What is your mail address?")
    desk.call("find_customer", email=customer["email"])
    desk.call(LOOK[desk.app], customer_id=customer["id"])


def oracle(task: Task) -> list[Message]:
    """Ask who it is, look up the records, announce the action, do it, and ask for more."""
    return [_message(number, move) for number, move in enumerate(json.loads(task.truth["moves"]))]


def imperfect_oracle(task: Task) -> list[Message]:
    """Play as the oracle does, but change a wrong row in each change with probability 1/3, and omit the numbers of each
    sentence with probability 1/3.
    """
    rng = random.Random(seed_of("imperfect", task.id))
    moves = json.loads(task.truth["moves"])
    for move in moves:
        if _reads(move) or rng.random() > 1 / 3:
            continue
        if move[0] == "say":
            move[1] = _without_numbers(move[1])
        else:
            name = next(iter(move[2]))
            move[2][name] += 1
    return [_message(number, move) for number, move in enumerate(moves)]


def hasty_oracle(task: Task) -> list[Message]:
    """Play as the oracle does, but omit each change, and each sentence's numbers, with probability 1/2."""
    rng = random.Random(seed_of("hasty", task.id))
    moves = []
    for move in json.loads(task.truth["moves"]):
        hasty = not _reads(move) and rng.random() < 0.5
        if not hasty:
            moves.append(move)
        elif move[0] == "say":
            moves.append(["say", _without_numbers(move[1])])
    return [_message(number, move) for number, move in enumerate(moves)]


def _reads(move: list[Any]) -> bool:
    """Return whether a move is a call that changes nothing."""
    return bool(move[0] == "call" and (move[1].endswith("_of") or move[1].startswith(("find", "search"))))


def _without_numbers(text: str) -> str:
    return " ".join(word for word in text.split(" ") if not any(map(str.isdigit, word)))


def _message(number: int, move: list[Any]) -> Message:
    if move[0] == "say":
        return Message("assistant", move[1])
    return Message("assistant", "", (Call(move[1], move[2], f"call_{number}"),))
