"""Tasks in the forum."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from .plan import TaskPlan, WebTemplate, button, chosen, done, link, typed
from .words import words_of

Data = Mapping[str, Any]
OPINIONS = ("I would wait a week.", "Ask a friend first.", "Take the cheaper one.", "It worked for me.", "Start small.")


def _vote(rng: random.Random, data: Data, seed: int) -> TaskPlan:
    thread, wrong_thread = rng.sample(data["threads"], 2)
    return TaskPlan(
        f'Vote for the thread "{thread["title"]}".',
        (link(thread["title"]), button("Vote up"), done()),
        {"voted": [thread["id"]]},
        wrong=(link(wrong_thread["title"]), button("Vote up"), done()),
    )


def _answer(rng: random.Random, data: Data, seed: int) -> TaskPlan:
    thread, (text, wrong) = rng.choice(data["threads"]), rng.sample(OPINIONS, 2)
    return TaskPlan(
        f'Answer in the thread "{thread["title"]}": {text}',
        (link(thread["title"]), typed("Your answer", text), button("Answer"), done()),
        {"answers": [[thread["id"], text]]},
        wrong=(link(thread["title"]), typed("Your answer", wrong), button("Answer"), done()),
    )


def _new(rng: random.Random, data: Data, seed: int) -> TaskPlan:
    topic, wrong = rng.sample(data["topics"], 2)
    title, text = f"Advice on {rng.choice(words_of(seed).matters)}", rng.choice(OPINIONS)
    ending = (typed("Title", title), typed("Text", text), button("Publish"), done())
    return TaskPlan(
        f'Open a thread "{title}" under {topic} with the text: {text}',
        (link("New thread"), chosen("Topic", topic), *ending),
        {"threads": [{"topic": topic, "title": title, "text": text}]},
        wrong=(link("New thread"), chosen("Topic", wrong), *ending),
    )


def _first(rng: random.Random, data: Data, seed: int) -> TaskPlan:
    thread = rng.choice([t for t in data["threads"] if t["posts"]])
    right = thread["posts"][0]["text"]
    others = {post["text"] for t in data["threads"] for post in t["posts"]} - {right}
    return TaskPlan(
        f'What does the first answer in the thread "{thread["title"]}" say?',
        (link(thread["title"]), done(right)),
        {},
        right,
        (link(thread["title"]), done(min(others, default="Nothing."))),
    )


def _most(rng: random.Random, data: Data, seed: int) -> TaskPlan:
    topic = rng.choice(sorted({thread["topic"] for thread in data["threads"]}))
    by_votes = sorted((t for t in data["threads"] if t["topic"] == topic), key=lambda thread: -thread["votes"])
    wrong_thread = next(thread for thread in data["threads"] if thread["id"] != by_votes[0]["id"])
    start = (chosen("Topic", topic), chosen("Sort by", "Votes"), button("Show"))
    return TaskPlan(
        f"Vote for the thread under {topic} that has the most votes.",
        (*start, link(by_votes[0]["title"]), button("Vote up"), done()),
        {"voted": [by_votes[0]["id"]]},
        wrong=(link(wrong_thread["title"]), button("Vote up"), done()),
    )


FORUM = (
    WebTemplate("vote", "forum", _vote),
    WebTemplate("answer", "forum", _answer, difficulty=2),
    WebTemplate("new_thread", "forum", _new, difficulty=2),
    WebTemplate("first_answer", "forum", _first),
    WebTemplate("vote_for_most", "forum", _most, held_out=True, difficulty=2),
)
