"""Games of interactive fiction that a policy writes and a search checks."""

from __future__ import annotations

import json
from typing import Any

from agentgym import Message, Policy, Task, TaskError, load
from agentgym.policy import Request, Sampling

RULES = """\
You write small games of interactive fiction as JSON. Answer with one JSON object {"wish": ..., "game": ...} and
nothing else. The wish is a sentence that tells the player what to do. The game has rooms, things, rules and a goal.
Conditions are of the kinds at, have, here and flag, and "yes": false turns one round. Effects are of the kinds take,
appear, remove, go, set and unset. A thing is in a room, with "you" or "nowhere". An example:
{"wish": "Get the coin.", "game": {"start": "hall",
"rooms": {"hall": {"text": "It is cold.", "exits": {"down": {"to": "cellar",
"needs": [{"kind": "flag", "name": "light"}], "otherwise": "It is too dark."}}},
"cellar": {"exits": {"up": {"to": "hall"}}}},
"things": {"lamp": {"at": "hall"}, "match": {"at": "you", "text": "The last one."},
"chest": {"at": "cellar", "portable": false}, "coin": {"at": "nowhere"}},
"rules": [{"command": "light lamp with match",
"needs": [{"kind": "have", "name": "lamp"}, {"kind": "have", "name": "match"}],
"effects": [{"kind": "set", "name": "light"}, {"kind": "remove", "name": "match"}],
"text": "The lamp burns.", "otherwise": "You need a lamp and a match."},
{"command": "open chest", "needs": [{"kind": "here", "name": "chest"}, {"kind": "flag", "name": "open", "yes": false}],
"effects": [{"kind": "appear", "name": "coin"}, {"kind": "set", "name": "open"}], "text": "In it is a coin."}],
"goal": [{"kind": "have", "name": "coin"}]}}
"""
MAX_CHARS = 40_000
"""Maximum length in characters of an answer; a longer answer is not read."""


async def write_game(
    policy: Policy, theme: str, *, name: str = "written/0000", least: int = 5, attempts: int = 4, seed: int = 0
) -> Task:
    """Let a policy write a game. If the game has a fault, the policy is told and may try again.

    Args:
        policy: any policy: a chat API, a local model, a script.
        theme: the subject of the game, in words.
        name: id of the task. least: the least number of commands in the shortest solution.
        attempts: how often the policy may answer. seed: the seed of its sampling.
    Raises: TaskError if no attempt gives a game that can be won; PolicyError if the policy cannot be asked.
    """
    environment: Any = load("environments", "agentgym/text-fiction-v1")
    messages = [
        Message("system", RULES),
        Message("user", f"Write a game about: {theme}. Its shortest solution must have {least} commands or more."),
    ]
    why = ""
    for attempt in range(attempts):
        sampling = Sampling(0.8, 1.0, 8_192, seed=seed + attempt)
        request = Request(messages, sampling=sampling, episode=f"{name}/{attempt}")
        reply = (await policy.generate_in_time(request)).message.text
        try:
            answer = _object(reply[:MAX_CHARS])
            task: Task = environment.task_of(name, str(answer["wish"]), answer["game"], least=least)
            return task
        except KeyError as error:
            why = f"the object lacks {error}"
        except (ValueError, TypeError, RecursionError) as error:
            why = str(error)
        messages += [
            Message("assistant", reply),
            Message(
                "user", f"That is no game that can be played: {why:.500}. Write the whole object again, corrected."
            ),
        ]
    raise TaskError(
        f"{policy.name} did not write a game about {theme!r} that can be won, in {attempts} attempts. The last failed "
        f"because: {why}."
    )


def _object(text: str) -> Any:
    """Return the JSON between the first and the last brace. Raises: ValueError if it is not JSON."""
    begin, end = text.find("{"), text.rfind("}")
    if begin < 0 or end < begin:
        raise ValueError("the answer contains no JSON object")
    return json.loads(text[begin : end + 1])
