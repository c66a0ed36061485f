"""The task set `web/desk-v1`: give a ticket of a help desk another status, in the task's own application.

Names of tickets are pairs of words. Every fifth pair is held out, so that held-out names consist of words that training
tasks have.
"""

# ruff: noqa: SIM905 - `"a b c".split()` is easier to read than quoted words

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from agentgym import Call, Message, Task, TaskSet, seed_of

from ..generator import TaskGenerator, TaskSlot
from .desk_app import REOPEN, STATUSES, presses
from .oracle import Script, say
from .site_archive import site_archive
from .words import word_pairs

NAME, ENVIRONMENT = "web/desk-v1", "agentgym/web-form-v1"
SIZES = {"train": 6_000, "validation": 100, "unseen_names": 200, "unseen_desks": 100}
TICKETS = 3
SITE: dict[str, Any] = {
    "site": "server",
    "folder": "web/help-desk",
    "command": ["python3", "desk_app.py"],
    "setup": ["cp", "data.json", "desk.json"],
    "state": ["cat", "desk.json"],
    "viewport": [400, 300],
}
"""The parameters that all tasks share."""
_QUALITY = tuple(
    """
    bent blocked broken cold dirty dusty empty faulty hot leaking loose loud lost noisy rusty slow stuck torn weak wet
    """.split()
)
_THING = tuple(
    """
    battery cable camera chair door fan heater key lamp lift lock mouse oven phone printer pump scanner screen tap
    window
    """.split()
)
_PROMPT = 'Set "{}" to {}.'
_REQUEST = re.compile(r'^Set "(.*)" to (\w+)\.', re.MULTILINE)
_LINK = re.compile(r'^ *\[\d+\] link "(.*)"$', re.MULTILINE)
_STATUS = re.compile(r'^ *\[\d+\] text "(.*)"$', re.MULTILINE)


def help_desk() -> bytes:
    """The folder of the application as a zip."""
    return site_archive({"desk_app.py": files(__package__).joinpath("desk_app.py").read_text(encoding="utf-8")})


@cache
def desk_task_set(seed: int = 0) -> TaskSet:
    """Tickets of a help desk, the task's own application, whose status must be changed.

    The seed chooses which tasks are in it.

    Held-out tasks carry the tag `unseen_desks` (names of the training tasks, on desks that no training task has) or
    `unseen_names` (names that no training task has).
    """
    draw = TaskGenerator(NAME, SIZES, seed).draw
    return TaskSet(
        NAME,
        {
            "held_out": [*draw("unseen_names", _task, new=True), *draw("unseen_desks", _task, new=False)],
            "validation": draw("validation", _task, new=False),
            "train": draw("train", _task, new=False),
        },
        oracle=desk_oracle,
        imperfect_oracle=imperfect_desk_oracle,
    )


def _task(rng: random.Random, slot: TaskSlot, new: bool) -> Task:
    names = rng.sample(word_pairs(_QUALITY, _THING, held_out=new), TICKETS)
    tickets = {name: {"status": rng.choice(("new", *STATUSES))} for name in names}
    name = rng.choice(names)
    before = tickets[name]["status"]
    requested = rng.choice([status for status in STATUSES if status != before])
    return Task(
        id=slot.id,
        environment=ENVIRONMENT,
        prompt=_PROMPT.format(name, requested),
        parameters={**SITE, "data": {"tickets": tickets}},
        truth={"effects": json.dumps({"tickets": {name: {"status": requested}}})},
        split=slot.split,
        tags=("two_steps" if before == "closed" else "one_step", *slot.tags),
    )


def desk_oracle(task: Task) -> Script:
    """Open the named ticket and give it the status, from the prompt and the pages, without the truth."""
    return _player(lambda name, status, names: (name, status))


def imperfect_desk_oracle(task: Task) -> Script:
    """Open another ticket, or give the named one another status.

    The prompt and the page determine which of the two, and which ticket or status. Every position and status is equally
    likely, so a policy that imitates this player does not learn a position or a status.
    """

    def another(name: str, status: str, names: Sequence[str]) -> tuple[str, str]:
        mistakes = [(other, status) for other in names if other != name]
        mistakes += [(name, other) for other in STATUSES if other != status]
        return mistakes[seed_of(name, status, *names) % len(mistakes)]

    return _player(another)


def _player(choose: Callable[[str, str, Sequence[str]], tuple[str, str]]) -> Script:
    def script(messages: Sequence[Message]) -> Message:
        pages = [message.text for message in messages if message.role in ("user", "tool")]
        requested = _REQUEST.search(pages[0])
        assert requested is not None
        name, status = choose(requested[1], requested[2], _LINK.findall(pages[0]))
        if len(pages) == 1:
            return say(Call("click", {"element": name}))
        current = _STATUS.search(pages[-1])
        if current is None or current[1] == status:
            return say(Call("answer", {}))
        return say(Call("click", {"element": REOPEN if REOPEN in presses(current[1]) else status}))

    return script
