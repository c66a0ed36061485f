"""The task set `web/wiki-v1`: pages of Flask-Wiki, an application by others."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from agentgym import TaskSet

from .installed_apps import installed_app_set
from .plan import Step, TaskPlan, WebTemplate, button, click, done, link, typed
from .wiki_site import SITE, wiki_data
from .words import words_of

Data = Mapping[str, Any]


@cache
def wiki_task_set(seed: int = 0) -> TaskSet:
    """Pages to be read and changed in Flask-Wiki, as it is installed from the package index.

    The seed chooses which tasks are in it. The strata are those of `web/apps-v1`.
    """
    return installed_app_set("web/wiki-v1", SITE, "web/wiki-pages", wiki_data, TEMPLATES, seed)


def _way_to(data: Data, name: str) -> tuple[Step, ...]:
    """Return the links from the first page to another."""
    title = data["pages"][name]["title"]
    if name in data["places"]:
        return (link(title),)
    parent = next(parent for parent, matters in data["places"].items() if name in matters)
    return link(data["pages"][parent]["title"]), link(title)


def _two(rng: random.Random, data: Data) -> list[str]:
    """Return the names of two pages, neither of them the first page."""
    return rng.sample(sorted(data["keepers"]), 2)


def _edit(rng: random.Random, data: Data, prompt: str, steps: Sequence[Step], change: Data) -> TaskPlan:
    """Open a page, edit it, save. The imperfect oracle does the same to another page."""
    name, wrong_name = _two(rng, data)
    ends = (_EDIT, *steps, _SAVE, done())
    return TaskPlan(
        prompt.format(data["pages"][name]["title"]),
        (*_way_to(data, name), *ends),
        {"pages": {name: change}},
        wrong=(*_way_to(data, wrong_name), *ends),
    )


def _title(rng: random.Random, data: Data, seed: int) -> TaskPlan:
    title = f"{rng.choice(words_of(seed).occasions)} {rng.randint(10, 99)}"
    return _edit(
        rng, data, f'Change the title of the page "{{}}" to "{title}".', [typed("Title", title)], {"title": title}
    )


def _tags(rng: random.Random, data: Data, seed: int) -> TaskPlan:
    tags = f"{rng.choice(words_of(seed).topics)}, {rng.choice(words_of(seed).colours)}"
    return _edit(rng, data, f'Tag the page "{{}}" with exactly: {tags}', [typed("Tags", tags)], {"tags": tags})


def _body(rng: random.Random, data: Data, seed: int) -> TaskPlan:
    words = words_of(seed)
    body = f"{rng.choice(words.people)} takes care of {rng.choice(words.matters)}."
    prompt = f'Replace the whole text of the page "{{}}" by this sentence: {body}'
    return _edit(rng, data, prompt, [typed("Body", body)], {"body": body})


def _delete(rng: random.Random, data: Data, seed: int) -> TaskPlan:
    name, wrong_name = _two(rng, data)
    ends = (_EDIT, button("Delete"), click('link "Delete page"'), done())
    return TaskPlan(
        f'Delete the page "{data["pages"][name]["title"]}".',
        (*_way_to(data, name), *ends),
        {"pages": {name: None}},
        wrong=(*_way_to(data, wrong_name), *ends),
    )


def _create(rng: random.Random, data: Data, seed: int) -> TaskPlan:
    """Write the page that a place links to but that does not exist yet."""
    parent, wrong_parent = rng.sample(sorted(data["missing"]), 2)
    title = data["missing"][parent]
    person = rng.choice(words_of(seed).people)
    body = f"{person} invites everybody."

    def steps(parent: str) -> tuple[Step, ...]:
        way = link(data["pages"][parent]["title"]), link(data["missing"][parent]), link("Create a new page")
        return (*way, typed("Title", title), typed("Body", body), _SAVE, done())

    parent_title = data["pages"][parent]["title"]
    return TaskPlan(
        f'The page "{parent_title}" links to a page that is missing. Write it: title "{title}", text "{body}"',
        steps(parent),
        {"pages": {title.lower().replace(" ", "-"): {"title": title, "tags": "", "body": body}}},
        wrong=steps(wrong_parent),
    )


def _ask_person(rng: random.Random, data: Data, seed: int) -> TaskPlan:
    name, wrong_name = _two(rng, data)
    while data["keepers"][wrong_name] == data["keepers"][name]:
        name, wrong_name = _two(rng, data)
    title = data["pages"][name]["title"]
    question = f'Who has the key of "{title}"?' if name in data["places"] else f'Whom does one ask about "{title}"?'
    return TaskPlan(
        f"{question} Answer with first and last name.",
        (*_way_to(data, name), done(data["keepers"][name])),
        {},
        answer=data["keepers"][name],
        wrong=(*_way_to(data, wrong_name), done(data["keepers"][wrong_name])),
    )


def _search(rng: random.Random, data: Data, seed: int) -> TaskPlan:
    """Tag the page that contains a given number; only the search finds it."""
    name, wrong_name = rng.sample(sorted(set(data["keepers"]) - set(data["places"])), 2)
    tag = rng.choice(words_of(seed).colours)

    def steps(name: str) -> tuple[Step, ...]:
        page = data["pages"][name]
        way = ("type", 'searchbox "Search"', _number_of(page)), click(_SEARCH), link(page["title"])
        return (*way, _EDIT, typed("Tags", tag), _SAVE, done())

    return TaskPlan(
        f"Search for the page that has the number {_number_of(data['pages'][name])}, and tag it with exactly: {tag}",
        steps(name),
        {"pages": {name: {"tags": tag}}},
        wrong=steps(wrong_name),
    )


def _number_of(page: Data) -> str:
    return str(page["body"].rstrip(".").rpartition(" ")[2])


_EDIT, _SAVE, _SEARCH = link("Edit"), button("Save"), "button"
TEMPLATES = (
    WebTemplate("title", "wiki", _title),
    WebTemplate("body", "wiki", _body),
    WebTemplate("create", "wiki", _create),
    WebTemplate("delete", "wiki", _delete),
    WebTemplate("ask_person", "wiki", _ask_person),
    WebTemplate("tags", "wiki", _tags, held_out=True),
    WebTemplate("search", "wiki", _search, held_out=True),
)
