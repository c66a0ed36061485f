"""Interactive fiction whose rules a task brings: commands, dead ends, games that are refused or written."""

from __future__ import annotations

import json
import random
import re

import pytest

from agentgym import Call, Message, ScriptedPolicy, Task, TaskError, load
from agentgym.sandboxes.text.fiction_game import Game
from agentgym.tasks.importers.items import LeftOutWarning
from agentgym.tasks.text import write_game
from agentgym.tasks.text.written_games import RULES

Fiction = load("environments", "agentgym/text-fiction-v1")
GAME = {
    "start": "hall",
    "rooms": {
        "hall": {
            "text": "It is cold.",
            "exits": {
                "down": {"to": "cellar", "needs": [{"kind": "flag", "name": "light"}], "otherwise": "It is too dark."}
            },
        },
        "cellar": {"exits": {"up": {"to": "hall"}}},
    },
    "things": {
        "lamp": {"at": "hall"},
        "match": {"at": "you", "text": "The last one."},
        "statue": {"at": "hall", "portable": False},
        "coin": {"at": "cellar"},
    },
    "rules": [
        {
            "command": "light lamp with match",
            "needs": [{"kind": "have", "name": "lamp"}, {"kind": "have", "name": "match"}],
            "effects": [{"kind": "set", "name": "light"}, {"kind": "remove", "name": "match"}],
            "text": "The lamp burns.",
            "otherwise": "You need a lamp and a match.",
        },
        {
            "command": "blow match out",
            "needs": [{"kind": "have", "name": "match"}],
            "effects": [{"kind": "remove", "name": "match"}],
        },
    ],
    "goal": [{"kind": "have", "name": "coin"}],
}
SOLUTION = ["take lamp", "light lamp with match", "go down", "take coin"]


def changed(**parts):
    return {**json.loads(json.dumps(GAME)), **parts}


async def opened(game=GAME):
    environment = Fiction()
    await environment.reset(Task("t", environment.id, "?", parameters={"game": game}), seed=0)
    return environment


async def act(environment, command):
    return (await environment.call(Call("act", {"command": command}))).content


@pytest.mark.parametrize(
    ("command", "reply"),
    [
        ("look", "You are in the hall. It is cold. You see: lamp, statue. Ways: down."),
        ("Take the LAMP!", "You take the lamp."),
        ("inventory", "You carry: match."),
        ("examine my match", "The last one."),
        ("examine lamp", "There is nothing special about it."),
    ],
)
async def test_commands_are_answered(command, reply):
    assert await act(await opened(), command) == reply


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("go down", "It is too dark."),
        ("go north", "No way leads north."),
        ("take statue", "The statue cannot be carried."),
        ("take coin", "There is no coin here."),
        ("take match", "You carry the match already."),
        ("light lamp with match", "You need a lamp and a match."),
        ("sing", "I do not understand 'sing'. Commands are: look, .*, light lamp with match, blow match out."),
    ],
)
async def test_what_cannot_be_done_is_refused_with_the_games_own_reason(command, reason):
    assert re.search(reason, await act(await opened(), command))


async def test_the_shortest_way_wins_and_each_of_its_commands_comes_nearer():
    environment = await opened()
    nearness = []
    for command in SOLUTION:
        nearness.append(await environment.potential())
        reply = await act(environment, command)
    assert nearness == [4 / 8, 4 / 7, 4 / 6, 4 / 5]
    assert reply.endswith("You have done it.")
    assert environment.verdict() == {"success": 1.0, "progress": 1.0}


async def test_a_state_without_a_way_to_the_goal_is_hopeless():
    environment = await opened()
    assert (await environment.outlook()).hopeless is None
    await act(environment, "blow match out")
    assert await environment.potential() == 0.0
    assert (await environment.outlook()).hopeless == "the goal cannot be reached any more"


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ({"start": "attic"}, "start names the room 'attic', which does not exist. Rooms are: hall, cellar"),
        ({"goal": [{"kind": "have", "name": "crown"}]}, "goal names the thing 'crown'"),
        ({"goal": [{"kind": "flag", "name": "dawn"}]}, "the flag 'dawn', which no rule sets"),
        ({"goal": [{"kind": "own", "name": "coin"}]}, r"goal\.0\.kind: Input should be 'at'"),
        ({"goal": []}, "goal: Tuple should have at least 1 item"),
        (
            {"rules": [*GAME["rules"], {"command": "go mad"}]},
            "'go mad' begins with a command that every game already has",
        ),
        ({"rules": GAME["rules"][:1] * 2}, "two rules have the same command"),
        ({"things": {**GAME["things"], "a hat": {"at": "hall"}}}, "'a hat' contains an article"),
        ({"plot": "thick"}, "plot: Extra inputs are not permitted"),
        ({"rules": GAME["rules"][1:]}, "the flag 'light', which no rule sets"),
        ({"things": {**GAME["things"], "match": {"at": "nowhere"}}}, "the game cannot be won"),
        ({"goal": [{"kind": "at", "name": "hall"}]}, "it is already solved before the first action"),
    ],
)
async def test_a_game_that_cannot_be_played_is_refused_with_the_part_that_is_wrong(parts, reason):
    with pytest.raises(TaskError, match=reason):
        await opened(changed(**parts))


async def test_a_search_that_does_not_end_is_an_error_and_no_hang():
    switches = [
        {"command": f"{verb} switch {letter}", "effects": [{"kind": effect, "name": f"switch {letter}"}]}
        for letter in "bcdefghijklmnopqrst"
        for verb, effect in (("raise", "set"), ("lower", "unset"))
    ]
    goal = [{"kind": "at", "name": "cellar"}, {"kind": "flag", "name": "switch b", "yes": False}]
    game = changed(
        rules=[*GAME["rules"], *switches][:60], things=GAME["things"] | {"lamp": {"at": "nowhere"}}, goal=goal
    )
    with pytest.raises(TaskError, match="more than 20,000 states"):
        await opened(game)


async def test_a_game_that_is_won_at_once_is_refused_too_if_its_states_are_too_many_to_look_at_later():
    """Or an agent who leaves the short way would start a search that does not end."""
    switches = [
        {"command": f"raise switch {letter}", "effects": [{"kind": "set", "name": f"switch {letter}"}]}
        for letter in "bcdefghijklmnopqrst"
    ]
    goal = [{"kind": "have", "name": "lamp"}]
    with pytest.raises(TaskError, match="more than 20,000 states"):
        await opened(changed(rules=[*GAME["rules"], *switches], goal=goal))


def test_the_game_that_a_writer_is_shown_can_be_won():
    example = json.loads(RULES[RULES.index('{"wish": "Get') :])
    task = Fiction.task_of("example", example["wish"], example["game"], least=5)
    assert task.truth["solution"][-2:] == ["open chest", "take coin"]


def test_generated_games_are_equal_in_every_process_and_random_players_do_not_win_them():
    assert Fiction.generate(3, 2) == Fiction.generate(3, 2) != Fiction.generate(4, 2)
    won = 0
    for seed in range(20):
        game = Game.read(Fiction.generate(seed, 1).parameters["game"])
        rng, state = random.Random(seed), game.beginning
        for _ in range(12):
            command = rng.choice(["look", *(f"go {way}" for way in game.rooms[state.at].exits), *game._rules])
            try:
                state, _ = game.do(command, state)
            except ValueError:
                continue
        won += game.is_solved(state)
    assert won <= 1


def test_unseen_places_and_kinds_are_in_no_easier_level():
    seen = {room for seed in range(60) for room in Fiction.generate(seed, 2).parameters["game"]["rooms"]}
    new = {room for seed in range(60) for room in Fiction.generate(seed, 4).parameters["game"]["rooms"]}
    assert not {"saloon", "dome"} & seen
    assert {"saloon", "dome"} <= new
    joins = [
        any("join" in rule["command"] for rule in Fiction.generate(seed, 5).parameters["game"]["rules"])
        for seed in range(20)
    ]
    assert all(joins)


def test_games_in_a_file_become_tasks_and_others_are_named_with_the_reason(tmp_path):
    easy = changed(goal=[{"kind": "have", "name": "lamp"}])
    items = [
        {"id": "good", "wish": "Get the coin.", "game": GAME},
        {"id": "easy", "wish": "Get the lamp.", "game": easy},
        {"id": "broken", "wish": "Get the coin.", "game": changed(start="attic")},
        {"id": "mute", "game": GAME},
    ]
    (tmp_path / "games.jsonl").write_text("".join(json.dumps(item) + "\n" for item in items))
    with pytest.warns(LeftOutWarning) as warned:
        task_set = load("importers", "fiction")(tmp_path / "games.jsonl")
    assert [task.id for task in task_set["train"]] == ["good"]
    assert task_set["train"][0].truth == {"solution": SOLUTION}
    reasons = warned[0].message.reasons
    assert reasons["easy"] == "its shortest solution has only 1 command (take lamp), but at least 3 are needed"
    assert "start names the room 'attic'" in reasons["broken"]
    assert "none of the fields wish holds text" in reasons["mute"]


async def test_a_policy_writes_games_and_is_told_what_is_wrong():
    requests = []

    def writer(messages):
        requests.append(messages[-1].text)
        if len(requests) == 1:
            return Message("assistant", "A game? With pleasure.")
        game = changed(start="attic") if len(requests) == 2 else GAME
        return Message("assistant", f"```json\n{json.dumps({'wish': 'Get the coin.', 'game': game})}\n```")

    task = await write_game(ScriptedPolicy(writer), "a cold house", least=4)
    assert task.truth == {"solution": SOLUTION}
    assert "Its shortest solution must have 4 commands or more." in requests[0]
    assert "That is no game that can be played: the answer contains no JSON object" in requests[1]
    assert "start names the room 'attic'" in requests[2]
    with pytest.raises(TaskError, match="did not write a game about 'a cold house' that can be won, in 2 attempts"):
        await write_game(ScriptedPolicy(lambda messages: Message("assistant", "{}")), "a cold house", attempts=2)
