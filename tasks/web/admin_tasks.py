"""The task set `web/admin-v1`: users and groups in the administration of Django, an application by others."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from agentgym import TaskSet

from .admin_site import SITE, users_data
from .installed_apps import installed_app_set
from .plan import Step, TaskPlan, WebTemplate, button, click, done, link, typed
from .words import words_of

Data = Mapping[str, Any]


@cache
def admin_task_set(seed: int = 0) -> TaskSet:
    """Jobs in the administration of Django, as it is installed from the package index.

    The seed chooses which tasks are in it. The strata are those of `web/apps-v1`.
    """
    return installed_app_set("web/admin-v1", SITE, "web/users", users_data, TEMPLATES, seed)


def _person(user: Data) -> str:
    return f"{user['first_name']} {user['last_name']}"


def _open(user: Data) -> tuple[Step, ...]:
    return link("Users"), link(user["username"])


def _edit(rng: random.Random, data: Data, prompt: str, steps: Sequence[Step], change: Data) -> TaskPlan:
    """Open a user, do some steps, save. The imperfect oracle does the same to another user."""
    user, wrong_user = rng.sample(data["users"], 2)
    ends = (*steps, button("Save"), done())
    return TaskPlan(
        prompt.format(user["username"], _person(user)),
        (*_open(user), *ends),
        {"users": {user["username"]: change}},
        wrong=(*_open(wrong_user), *ends),
    )


def _email(rng: random.Random, data: Data, seed: int) -> TaskPlan:
    email = f"{rng.choice(words_of(seed).topics).lower()}{rng.randint(10, 99)}@{words_of(seed).domain}"
    prompt = f"Change the e-mail address of the user {{0}} to {email}."
    return _edit(rng, data, prompt, [typed("Email address:", email)], {"email": email})


def _name(rng: random.Random, data: Data, seed: int) -> TaskPlan:
    first, last = (rng.choice(words_of(seed).people).split()[index] for index in (0, 1))
    last = f"{last}-{rng.choice(words_of(seed).people).split()[1]}"
    steps = [typed("First name:", first), typed("Last name:", last)]
    prompt = f"Change the name of the user {{0}} to {first} {last}."
    return _edit(rng, data, prompt, steps, {"name": f"{first} {last}"})


def _staff(rng: random.Random, data: Data, seed: int) -> TaskPlan:
    return _edit(rng, data, "Make {1} (user {0}) a member of staff.", [click('checkbox "Staff status"')], {"staff": 1})


def _active(rng: random.Random, data: Data, seed: int) -> TaskPlan:
    user, wrong_user = rng.sample(data["users"], 2)
    ends = (click('checkbox "Active"'), button("Save"), done())
    word = "Deactivate" if user["is_active"] else "Activate"
    return TaskPlan(
        f"{word} the account of {_person(user)}, whose user name is {user['username']}.",
        (*_open(user), *ends),
        {"users": {user["username"]: {"active": int(not user["is_active"])}}},
        wrong=(*_open(wrong_user), *ends),
    )


def _delete_user(rng: random.Random, data: Data, seed: int) -> TaskPlan:
    user, wrong_user = rng.sample(data["users"], 2)
    ends = (link("Delete"), click('button "Yes,'), done())
    return TaskPlan(
        f"Delete the user {user['username']} ({_person(user)}).",
        (*_open(user), *ends),
        {"users": {user["username"]: None}},
        wrong=(*_open(wrong_user), *ends),
    )


def _add_group(rng: random.Random, data: Data, seed: int) -> TaskPlan:
    name, wrong_name = (f"{topic} {rng.randint(10, 99)}" for topic in rng.sample(words_of(seed).topics, 2))

    def steps(group: str) -> tuple[Step, ...]:
        return link("Groups"), link("ADD GROUP"), typed("Name:", group), button("Save"), done()

    return TaskPlan(f"Add a group with the name {name}.", steps(name), {"groups": {name: []}}, wrong=steps(wrong_name))


def _ask_email(rng: random.Random, data: Data, seed: int) -> TaskPlan:
    user, wrong_user = rng.sample(data["users"], 2)
    return TaskPlan(
        f"What is the e-mail address of the user {user['username']}?",
        (*_open(user), done(user["email"])),
        {},
        answer=user["email"],
        wrong=(*_open(wrong_user), done(wrong_user["email"])),
    )


def _rename_group(rng: random.Random, data: Data, seed: int) -> TaskPlan:
    group, wrong_group = data["groups"][-1], data["groups"][0]
    name = f"{rng.choice(words_of(seed).topics)} {rng.randint(10, 99)}"

    def steps(renamed: str) -> tuple[Step, ...]:
        return link("Groups"), link(renamed), typed("Name:", name), button("Save"), done()

    return TaskPlan(
        f"Rename the group {group} to {name}.",
        steps(group),
        {"groups": {group: None, name: []}},
        wrong=steps(wrong_group),
    )


def _template(name: str, draw: Callable[[random.Random, Data, int], TaskPlan], held_out: bool = False) -> WebTemplate:
    return WebTemplate(name, "admin", draw, held_out)


TEMPLATES = (
    _template("email", _email),
    _template("name", _name),
    _template("active", _active),
    _template("add_group", _add_group),
    _template("ask_email", _ask_email),
    _template("delete_user", _delete_user),
    _template("staff", _staff, held_out=True),
    _template("rename_group", _rename_group, held_out=True),
)
