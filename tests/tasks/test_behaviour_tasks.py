"""`behaviour/shopping-v1`: what is held out, what a log gives away, and how scripted players score."""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict
from types import SimpleNamespace

import pytest

from agentgym import Call, EpisodeManager, Message, ScriptedPolicy, load_task_set
from agentgym.tasks.behaviour.shop import PAGE_SIZE, TYPE, Product, ShopperAction
from agentgym.tasks.behaviour.shopper import NEW_WORDINGS, WORDINGS, all_foretell, all_habits, consistent
from agentgym.tasks.behaviour.words import BRANDS, COLOURS, KINDS, NEW_BRANDS, NEW_COLOURS, NEW_KINDS

NEEDS = re.compile(r"Session \d+\. Needs: (\w+), (\w+)\.")
RESULTS = re.compile(r"(\d+) results, page (\d+) of (\d+)")
PRODUCT = re.compile(
    r"(\w+) (\w+) (\w+), (\d+) EUR, ([\d.]+) stars, (\d+) reviews(?:, delivery in (\d) days, (\w+) returns)?"
)


@pytest.fixture(scope="module")
def task_set():
    return load_task_set("behaviour/shopping-v1")


@pytest.fixture(scope="module")
def sample(task_set):
    return random.Random(0).sample([task for tasks in task_set.values() for task in tasks], 500)


def past_of(task):
    """Of each past session the heading, and its (page, action) pairs, by the text alone."""
    for text in task.parameters["past"].split("\n\n"):
        heading, *lines = text.split("\n")
        steps, page = [], ["Start page"]
        for line in lines:
            if line.startswith("> "):
                steps.append(("\n".join(page), ShopperAction.read(line[2:])))
                page = []
            else:
                page.append(line)
        yield heading, steps


def present_of(task):
    steps = [(step["page"], ShopperAction.read(step["action"])) for step in task.parameters["steps"]]
    return task.parameters["present"], steps


def product_of(line):
    brand, colour, kind, price, stars, reviews, days, returns = PRODUCT.fullmatch(line).groups()
    return Product(brand, colour, kind, int(price), float(stars), int(reviews), int(days or 0), returns == "free")


def read(heading, steps):
    """A session as habits see it, made of nothing but the words of its pages."""
    kind, colour = NEEDS.fullmatch(heading).groups()
    query, refined, session = "", (), []
    for page, action in steps:
        first, *lines = page.split("\n")
        count, number, pages = map(int, match.groups()) if (match := RESULTS.fullmatch(first)) else (0, 1, 1)
        opened = product_of(first) if PRODUCT.fullmatch(first) else None
        state = SimpleNamespace(
            kind=kind,
            colour=colour,
            query=query,
            refined=refined,
            number=number,
            pages=pages,
            results=[None] * count,
            visible=[product_of(line) for line in lines],
            opened=opened or (first.startswith("Basket") or None),
            in_basket=first.startswith("Basket"),
        )
        session.append((state, action))
        query = action.value if action.type == TYPE else query
        refined = (*refined, action) if action.refines else refined
    return session


async def play(tasks, player):
    return await EpisodeManager(lambda task: ScriptedPolicy(player(task))).collect(tasks)


def rate(trajectories, component="success"):
    return sum(trajectory.outcome.get(component, 0.0) for trajectory in trajectories) / len(trajectories)


def predicted(actions):
    arguments = [{"rationale": "", "type": a.type, "target": a.target, "value": a.value} for a in actions]
    return [Message("assistant", "", (Call("act", each, f"c{n}"),)) for n, each in enumerate(arguments)]


def test_what_is_held_out_is_in_no_training_task(task_set):
    texts = [t for task in task_set["train"] for t in (task.parameters["past"], *(p for p, _ in present_of(task)[1]))]
    trained = set(re.findall(r"\w+", " ".join(texts)))
    assert not trained & {*NEW_BRANDS, *NEW_KINDS, *NEW_COLOURS}
    assert trained >= {*BRANDS, *KINDS, *COLOURS}
    by_stratum = Counter(tag for task in task_set["held_out"] for tag in task.tags if tag.startswith("unseen"))
    assert by_stratum == {"unseen_products": 180, "unseen_habits": 150, "unseen_compositions": 150}
    assert len(task_set["train"]) == 1800
    new = [task for task in task_set["held_out"] if "unseen_habits" in task.tags]
    trained_reasons, new_reasons = (
        "\n".join(reason for task in tasks for reason in task.truth["reasons"]) for tasks in (task_set["train"], new)
    )
    for words in (r"for [A-Z]\w+ colour kind", "for kind colour", "most reviewed", "at least 150 reviews"):
        assert not re.search(words, trained_reasons), words
        assert re.search(words, new_reasons), words
    assert (len(WORDINGS), len(NEW_WORDINGS)) == (4, 2)


def test_the_words_of_a_log_leave_only_habits_that_foretell_the_present_session(task_set):
    """A reader who knows which habits there are, and reads what the agent reads, has no choice."""
    for task in [*task_set["train"][:60], *task_set["held_out"][::12]]:
        possible = all_habits(NEW_BRANDS if "unseen_products" in task.tags else BRANDS)
        for heading, steps in past_of(task):
            possible = consistent(possible, read(heading, steps))
        assert all(possible.values()), task.id
        assert all_foretell(possible, read(*present_of(task))), task.id


async def test_the_oracle_is_right_everywhere_silence_nowhere_and_half_right_about_half(task_set, sample):
    assert rate(await play(sample, task_set.oracle)) == 1.0
    assert rate(await play(sample[:100], lambda task: lambda messages: Message("assistant", ""))) == 0.0
    assert 0.4 < rate(await play(sample, task_set.imperfect_oracle)) < 0.6


def place_of(page):
    return next((name for name in ("Start", "Basket", "results") if name in page.split("\n")[0]), "product")


def in_general(heading, page, action):
    """An action without the names of one session: the product by its place, the query by what is needed."""
    kind, colour = NEEDS.fullmatch(heading).groups()
    value = action.value.replace(kind, "{kind}").replace(colour, "{colour}")
    if action.target == "product":
        value = str(names_on(page).index(action.value))
    return action._replace(value=value)


def in_particular(heading, page, action):
    kind, colour = NEEDS.fullmatch(heading).groups()
    value = action.value.format(kind=kind, colour=colour)
    if action.target == "product":
        names = names_on(page)
        value = names[int(value)] if int(value) < len(names) else "none"
    return action._replace(value=value)


def names_on(page):
    return [line.split(",")[0] for line in page.split("\n")[1:]]


async def test_who_does_what_is_usual_or_what_was_done_last_is_seldom_right(task_set, sample):
    """The most frequent action on a page of its kind; or that of the last session, at the same time."""
    usual = defaultdict(Counter)
    for task in task_set["train"]:
        heading, steps = present_of(task)
        for page, action in steps:
            usual[place_of(page)][in_general(heading, page, action)] += 1

    def by_frequency(task):
        heading, steps = present_of(task)
        likeliest = {kind: counts.most_common(1)[0][0] for kind, counts in usual.items()}
        return predicted(in_particular(heading, page, likeliest[place_of(page)]) for page, _ in steps)

    def as_last_time(task):
        *_, (before, past) = past_of(task)
        done = defaultdict(list)
        for page, action in past:
            done[place_of(page)].append(in_general(before, page, action))
        heading, steps = present_of(task)
        actions = []
        for page, _ in steps:
            own = done[place_of(page)] or [usual[place_of(page)].most_common(1)[0][0]]
            actions.append(in_particular(heading, page, own.pop(0) if len(own) > 1 else own[0]))
        return predicted(actions)

    frequent = await play(sample, by_frequency)
    assert rate(frequent) < 0.05
    assert rate(frequent, "exact_actions") < 0.4
    assert rate(await play(sample, as_last_time)) < 0.4
    assert max(len(names_on(page)) for task in sample for page, _ in present_of(task)[1]) == PAGE_SIZE
