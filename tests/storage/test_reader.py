"""Reading a ledger without writing to it: lists, filters, older files, files in use."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
from dataclasses import replace

import pytest
from scripted_episodes import counting, say, task

from agentgym import Budgets, EpisodeManager, RolloutConfig, ScriptedPolicy, Task, Trajectory, Turn
from agentgym.errors import LedgerError
from agentgym.messages import Message
from agentgym.storage.ledger import Ledger
from agentgym.storage.reader import LedgerReader
from agentgym.storage.summary import COLUMNS, TABLE, summary_row
from agentgym.testing import ByteRenderer, Counter, TargetReached
from agentgym.trajectory import Row

TAGS = {"good": ("easy", '",', "easy"), "bad": ("hard",), "cut": ()}


async def play(path, runs=("train-000000", "train-000001", "held-out"), group_size=2):
    """Three tasks a run: one solved, one answered wrongly after a refusal, one cut after five turns."""
    scripts = {
        "good": counting(2),
        "bad": [say("refuse"), say("nothing"), say("submit")],
        "cut": [say(("add", {"amount": 0}))] * 9,
    }
    ledger = Ledger(path)
    try:
        for run in runs:
            for name, script in scripts.items():
                manager = EpisodeManager(
                    lambda task, script=script: ScriptedPolicy(script, ByteRenderer()),
                    RolloutConfig(environment=Counter, reward=TargetReached(), budgets=Budgets(max_turns=5)),
                    ledger=ledger,
                    label=run,
                )
                await manager.collect([replace(task(name), tags=TAGS[name])], group_size)
    finally:
        ledger.close()


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    ledger_path = tmp_path_factory.mktemp("ledger") / "ledger.sqlite"
    asyncio.run(play(ledger_path))
    return ledger_path


@pytest.fixture
def reader(path):
    with contextlib.closing(LedgerReader(path)) as reader:
        yield reader


def older(path, copy):
    """The file as an earlier agentgym wrote it: with summaries that say less, under another name."""
    copy.write_bytes(path.read_bytes())
    with contextlib.closing(sqlite3.connect(copy)) as connection:
        connection.execute(f"DROP TABLE {TABLE}")
        connection.execute("CREATE TABLE summary (episode INTEGER PRIMARY KEY, problems TEXT)")
    return copy


def test_a_summary_says_what_the_record_says(reader, path):
    with contextlib.closing(Ledger(path)) as ledger:
        for row in reader.select(limit=100):
            assert tuple(row[name] for name in COLUMNS) == summary_row(row["episode"], ledger.load(row["id"]))
    bad = reader.select({"task": "bad"})[0]
    assert bad["failures"] == '{"tool_error": 1, "unknown_tool": 1, "wrong_answer": 1}'
    assert (bad["run"], bad["stop"], bad["success"], bad["turns"], bad["calls"], bad["calls_ok"]) == (
        "train-000000",
        "answered",
        0.0,
        3,
        3,
        1,
    )


def test_a_summary_by_hand():
    """A reward of 1 for the outcome and 0.5 * 1 for the turn; three tokens of the agent's own, and two that it read."""
    turn = Turn(0, Message("assistant", "x"), token_ids=[1, 2, 3], logprobs=[0.0] * 3, observation_ids=[4, 5])
    turn.rewards = {"r": 1.0}
    task = Task("t", "test/none-v1", tags=("b", "a", "b"))
    trajectory = Trajectory("run/t#0", task, turns=[turn], outcome={"success": 1.0}, weights={"r": 0.5})
    row = dict(zip(COLUMNS, summary_row(1, trajectory), strict=True))
    assert (row["tags"], row["tokens"], row["success"], row["reward"]) == ('["a", "b"]', 3, 1.0, 1.5)


def test_filters_are_the_kinds_they_are_named_after(reader):
    by_only = {only: {row["task"] for row in reader.select({"only": only})} for only in reader.facets()["only"]}
    assert by_only == {
        "solved": {"good"},
        "unsolved": {"bad", "cut"},
        "truncated": {"cut"},
        "failed": set(),
        "running": set(),
    }
    assert reader.facets()["only"] == {"solved": 6, "unsolved": 12, "truncated": 6, "failed": 0, "running": 0}
    assert reader.facets({"phase": "train"})["failure"] == {
        "tool_error": 4,
        "unknown_tool": 4,
        "wrong_answer": 4,
        "repeated": 4,
        "no_answer": 4,
    }
    assert reader.count({"failure": "tool_error", "run": "held-out"}) == 2
    assert {row["task"] for row in reader.select({"failure": "repeated"})} == {"cut"}
    for tag, expected_tasks in (("easy", {"good"}), ('",', {"good"}), ("hard", {"bad"}), (",", set()), ("eas", set())):
        assert {row["task"] for row in reader.select({"tag": tag})} == expected_tasks
    assert reader.facets({"only": "solved", "tag": "hard"}) == {
        "only": dict.fromkeys(reader.facets()["only"], 0),
        "failure": {},
        "tag": {"easy": 6, '",': 6},
    }
    assert reader.count({"text": "TRAIN-000001/B"}) == 2
    assert reader.count({"text": "%"}) == 0  # a letter like any other
    assert reader.phases() == {"train": 12, "held-out": 6}


@pytest.mark.parametrize("value", ["'", '"', "$", "a.b", "[0]", "\x00", "void' OR 1=1 --"])
def test_no_filter_is_ever_part_of_a_statement(reader, value):
    for name in ("failure", "tag", "run", "task", "text", "phase", "stop"):
        assert reader.count({name: value}) == 0


def test_what_there_is_not_is_an_error_that_names_what_there_is(reader):
    for call in (
        lambda: reader.select({"only": "mine"}),
        lambda: reader.select({"colour": "red"}),
        lambda: reader.select(sort="head"),
        lambda: reader.load("train-000000/nobody#0"),
    ):
        with pytest.raises(LedgerError, match=r"Choose one of|has no episode"):
            call()


def test_orders_are_complete_and_stable_whichever_page_is_asked(reader):
    for sort in ("episode", "task", "success", "reward", "turns", "tokens", "duration_s", "stop"):
        for descending in (False, True):
            all_ids = [row["id"] for row in reader.select(sort=sort, descending=descending)]
            pages = [reader.select(sort=sort, descending=descending, offset=at, limit=5) for at in range(0, 18, 5)]
            assert [row["id"] for page in pages for row in page] == all_ids
            assert len(set(all_ids)) == 18


def test_a_ledger_of_an_earlier_agentgym_is_listed_bit_by_bit_and_stays_as_it_is(path, tmp_path):
    copy = older(path, tmp_path / "old.sqlite")
    before = copy.read_bytes()
    with contextlib.closing(LedgerReader(copy)) as reader:
        assert reader.count() == 0
        while reader.summarise(0.0):
            pass
        with contextlib.closing(LedgerReader(path)) as new:
            assert reader.select(limit=99) == new.select(limit=99)
            assert reader.facets() == new.facets()
            assert reader.phases() == new.phases()
    assert copy.read_bytes() == before


def test_an_older_ledger_that_this_agentgym_goes_on_with_is_listed_whole(path, tmp_path):
    copy = older(path, tmp_path / "old.sqlite")
    with contextlib.closing(LedgerReader(copy)) as reader:
        reader.summarise()
        assert reader.count() == 18
        asyncio.run(play(copy, runs=["later-000000"]))
        assert reader.summarise() == 0
        assert reader.count() == 24
        assert len({row["id"] for row in reader.select(limit=99)}) == 24
        assert reader.phases() == {"train": 12, "held-out": 6, "later": 6}
    with contextlib.closing(LedgerReader(copy)) as reader:  # the ledger holds six summaries, the others are made
        reader.summarise()
        assert reader.count() == 24


async def test_an_episode_in_progress_is_listed_with_the_turns_it_has_so_far(tmp_path):
    ledger = Ledger(tmp_path / "ledger.sqlite")
    seen = []

    def script(messages):
        with contextlib.closing(LedgerReader(tmp_path / "ledger.sqlite")) as reader:
            seen.append([(row["turns"], row["stop"]) for row in reader.select({"only": "running"})])
            if seen[-1]:
                assert len(reader.load("r/t#0").turns) == seen[-1][0][0]
        return counting(2)[len(seen) - 1]

    manager = EpisodeManager(
        ScriptedPolicy(script), RolloutConfig(environment=Counter, reward=TargetReached()), ledger=ledger, label="r"
    )
    try:
        await manager.collect([task()])
    finally:
        ledger.close()
    assert seen == [[], [(1, None)], [(2, None)]]


async def test_rows_that_began_after_the_first_turn_of_an_episode_in_progress_are_read(tmp_path):
    """The head was written with the first turn, and does not know of them."""
    with contextlib.closing(Ledger(tmp_path / "ledger.sqlite")) as ledger:
        trajectory = Trajectory("r/t#0", task())
        for row in range(3):
            trajectory.turns.append(Turn(row, say("submit"), row=row))
            await ledger.write_turn(trajectory, trajectory.turns[-1])
            trajectory.further_rows.append(Row())
        loaded = ledger.load("r/t#0")
    assert [[turn.index for turn in row.turns] for row in loaded.rows()] == [[0], [1], [2]]


def test_a_damaged_episode_is_left_out_of_lists_and_told_when_it_is_opened(path, tmp_path):
    copy = older(path, tmp_path / "old.sqlite")
    with contextlib.closing(sqlite3.connect(copy)) as connection:
        connection.execute("UPDATE episode SET head = '{' WHERE id = 'held-out/bad#1'")
        connection.commit()
    with contextlib.closing(LedgerReader(copy)) as reader:
        assert reader.summarise() == 0
        assert reader.count() == 17
        assert reader.summarise() == 0
        with pytest.raises(LedgerError, match="damaged"):
            reader.load("held-out/bad#1")


def test_what_is_no_ledger_is_told_from_one(tmp_path):
    for name, content in (("none", None), ("text", b"hello" * 500), ("empty", b"")):
        if content is not None:
            (tmp_path / name).write_bytes(content)
        with pytest.raises(LedgerError, match=r"no ledger|not a ledger|cannot be read"):
            LedgerReader(tmp_path / name)
    with contextlib.closing(sqlite3.connect(tmp_path / "other")) as connection:
        connection.execute("CREATE TABLE cats (name)")
    with pytest.raises(LedgerError, match="cats"):
        LedgerReader(tmp_path / "other")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_ledger_in_a_folder_that_may_not_be_written_is_read(path, tmp_path):
    copy = tmp_path / "ledger.sqlite"
    copy.write_bytes(path.read_bytes())
    tmp_path.chmod(0o500)
    try:
        with contextlib.closing(LedgerReader(copy)) as reader:
            assert reader.count() == 18
    finally:
        tmp_path.chmod(0o700)
