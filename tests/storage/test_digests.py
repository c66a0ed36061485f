"""What a disk or a copy has changed in a ledger is found when it is read."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import random
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from scripted_episodes import counting, make_manager, task
from trajectory_json import trajectory_to_json

from agentgym import ScriptedPolicy
from agentgym.errors import LedgerError
from agentgym.evaluation.report import contents
from agentgym.storage import Journal, Ledger, RunFolder, digests
from agentgym.storage.reader import LedgerReader
from agentgym.storage.summary import TABLE
from agentgym.testing import ByteRenderer, CounterWithState, TargetReached

FLIPS = 100


@pytest.fixture(scope="module")
def written(tmp_path_factory) -> Path:
    """A ledger with 60 finished episodes under three labels, one of them relabelled, and an unfinished one."""
    path = tmp_path_factory.mktemp("digests") / "ledger.sqlite"

    async def play() -> None:
        with contextlib.closing(Ledger(path)) as ledger:
            for label in ("train", "held-out", "again"):
                policy = ScriptedPolicy(counting(2), ByteRenderer())
                options = {"environment": CounterWithState, "reward": TargetReached()}
                manager = make_manager(policy, ledger=ledger, label=label, **options)
                await manager.collect([task(f"t{number}") for number in range(20)])
            ledger.relabel("again", "moved")
            last = next(ledger.trajectories("train"))
            unfinished = dataclasses.replace(last, id="train/unfinished#0")
            await ledger.write_turn(unfinished, unfinished.turns[0])

    asyncio.run(play())
    return path


def everything_in(path: Path) -> Any:
    """All that a run or a page reads."""
    with contextlib.closing(Ledger(path)) as ledger:
        labels = ("train", "held-out", "again", "moved")
        ids = [sorted(read(label)) for label in labels for read in (ledger.finished, ledger.awaiting_group)]
        records = [trajectory_to_json(trajectory) for trajectory in ledger.trajectories()]
        records += [trajectory_to_json(ledger.load(episode)) for episode in [*ids[0][:3], "train/unfinished#0"]]
        last = [ledger.last_label(), ledger.last_label("train")]
    with contextlib.closing(LedgerReader(path)) as reader:
        reader.summarise(60)
        rows = reader.select(limit=100)
        counts = reader.facets(), reader.phases(), reader.count()
    return repr((ids, records, last, rows, counts))


def flipped(path: Path, copy: Path, generator: random.Random) -> int:
    data = bytearray(path.read_bytes())
    bit = generator.randrange(len(data) * 8)
    data[bit // 8] ^= 1 << bit % 8
    copy.write_bytes(data)
    return bit


def test_a_flipped_bit_is_found_or_has_no_effect(written, tmp_path):
    expected, wrong, generator = everything_in(written), [], random.Random(34)
    for number in range(FLIPS):
        copy = tmp_path / f"{number}.sqlite"
        bit = flipped(written, copy, generator)
        with contextlib.suppress(LedgerError):
            if everything_in(copy) != expected:
                wrong.append(bit)
        copy.unlink()
    assert not wrong, f"{len(wrong)} of {FLIPS} flips were read as if nothing had happened"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            "UPDATE turn SET head = replace(head, 'a', 'b') WHERE episode = 5 AND number = 1",
            "turn 1 of the episode",
        ),
        ("UPDATE turn SET logprobs = zeroblob(length(logprobs)) || x'00' WHERE episode = 5", "of the episode"),
        ("UPDATE episode SET head = replace(head, 'a', 'b') WHERE key = 5", "the episode .* is damaged"),
        ("UPDATE episode SET awaits_group = 1 WHERE key = 5", "the episode .* is damaged"),
        ("UPDATE turn SET episode = 1000 WHERE episode = 5", "should have 3 turns, but has 0"),
    ],
)
def test_a_row_that_was_changed_is_named(written, tmp_path, change, message):
    copy = tmp_path / "ledger.sqlite"
    copy.write_bytes(written.read_bytes())
    with contextlib.closing(sqlite3.connect(copy)) as connection, connection:
        connection.execute(change)
        (damaged,) = connection.execute("SELECT id FROM episode WHERE key = 5").fetchone()
    with contextlib.closing(Ledger(copy)) as ledger:
        for read in (lambda: ledger.load(damaged), lambda: list(ledger.trajectories())):
            with pytest.raises(LedgerError, match=message):
                read()
    with contextlib.closing(LedgerReader(copy)) as reader, pytest.raises(LedgerError, match=message):
        reader.load(damaged)


@pytest.mark.parametrize("column", ["tags", "failures", "run"])
def test_a_summary_that_was_changed_is_not_counted(written, tmp_path, column):
    copy = tmp_path / "ledger.sqlite"
    copy.write_bytes(written.read_bytes())
    with contextlib.closing(sqlite3.connect(copy)) as connection, connection:
        connection.execute(f"UPDATE {TABLE} SET {column} = '[\"x\"]' WHERE episode = 5")
    for read in (LedgerReader.facets, LedgerReader.phases, LedgerReader.count):
        with (
            contextlib.closing(LedgerReader(copy)) as reader,
            pytest.raises(LedgerError, match=r"the summary of .* is damaged"),
        ):
            read(reader)


def test_a_damaged_episode_is_not_given_a_fresh_digest(written, tmp_path):
    copy = tmp_path / "ledger.sqlite"
    copy.write_bytes(written.read_bytes())
    with contextlib.closing(sqlite3.connect(copy)) as connection, connection:
        connection.execute("UPDATE episode SET head = replace(head, 'a', 'b') WHERE key = 5")
    with contextlib.closing(Ledger(copy)) as ledger, pytest.raises(LedgerError, match="is damaged"):
        ledger.relabel("train", "elsewhere")


def test_rows_without_a_digest_are_read_and_rows_that_are_added_have_one(written, tmp_path):
    """A ledger of an earlier agentgym gets the column when a run goes on with it."""
    copy = tmp_path / "ledger.sqlite"
    copy.write_bytes(written.read_bytes())
    with contextlib.closing(sqlite3.connect(copy)) as connection, connection:
        for table in ("episode", "turn"):
            connection.execute(f"ALTER TABLE {table} DROP COLUMN {digests.COLUMN}")
    with contextlib.closing(LedgerReader(copy)) as reader:
        assert len(reader.load("train/t0#0").turns) == 3
    with contextlib.closing(Ledger(copy)) as ledger:
        old = list(ledger.trajectories())
        assert len(old) == 60
        new = dataclasses.replace(old[0], id="new/t0#0")
        asyncio.run(ledger.finish(new))
        assert ledger.load("new/t0#0").turns == new.turns
    with contextlib.closing(sqlite3.connect(copy)) as connection:
        counted = connection.execute("SELECT count(*), count(digest) FROM turn").fetchone()
    assert counted == (60 * 3 + 1 + 3, 3)


def test_a_digest_tells_apart_what_would_read_alike():
    rows = [("ab", "c"), ("a", "bc"), (b"ab", "c"), (None, "c"), ("", "c"), (1, "c"), ("1", "c"), ("None", "c")]
    assert len({digests.digest_of(*row) for row in rows}) == len(rows)
    assert digests.digest_of(True, 2.0) == digests.digest_of(1, 2)


def test_a_flipped_bit_in_a_json_file_of_a_run_is_found_or_has_no_effect(tmp_path):
    run = RunFolder(tmp_path)
    data = {"step": 3, "success": [1.0, 0.25], "names": ["caf\u00e9", "b"], "seed": 2**60, "none": None}
    path = run.write_json("state.json", data)
    written_bytes, wrong = path.read_bytes(), []
    assert run.read_json("state.json") == data
    for bit in range(len(written_bytes) * 8):
        damaged = bytearray(written_bytes)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        with contextlib.suppress(LedgerError):
            if run.read_json("state.json").items() < data.items() or {
                **run.read_json("state.json"),
                **data,
            } != run.read_json("state.json"):
                wrong.append(bit)
    assert not wrong
    path.write_text('{"step": 4}')
    assert run.read_json("state.json") == {"step": 4}, "an earlier version wrote no digest"


def test_a_damaged_line_of_a_journal_counts_as_not_written(tmp_path):
    path = tmp_path / "journal"
    journal = Journal(path)
    journal.write("a", {"verdict": 1.5})
    journal.write("b", 2)
    path.write_text(path.read_text().replace("1.5", "0.5") + '["c", 3]\n')
    read = Journal(path)
    assert ("a" in read, read["b"], read["c"]) == (False, 2, 3)


def test_a_flipped_bit_in_the_metrics_of_a_run_is_found_or_has_no_effect(tmp_path):
    """A damaged line is left out, as one that a killed process has cut off; the report says that it was."""
    folder, generator = RunFolder(tmp_path / "run"), random.Random(5)
    for step in range(20):
        folder.log(step, "train", success=generator.random(), loss=float("nan"), tokens=1234.0 * step)
    expected = [repr(row) for row in folder.metrics()]
    content, damaged = folder.metrics_file.read_bytes(), 0
    for _ in range(FLIPS):
        data = bytearray(content)
        data[generator.randrange(len(data))] ^= 1 << generator.randrange(8)
        folder.metrics_file.write_bytes(data)
        rows = [repr(row) for row in folder.metrics()]
        assert set(rows) <= set(expected)
        notes = contents.read(folder.path).notes
        assert rows == expected or any("passed over" in note for note in notes)
        damaged += rows != expected
    assert damaged > FLIPS // 2


def test_the_metrics_of_an_earlier_agentgym_get_their_digests_when_the_run_is_resumed(tmp_path):
    folder = RunFolder(tmp_path).create()
    folder.metrics_file.write_text("".join(f'{{"time": 1, "step": {step}, "phase": "train"}}\n' for step in range(3)))
    folder.forget(["train"], after_step=1)
    folder.log(2, "train")
    assert [row["step"] for row in folder.metrics()] == [0, 1, 2]
    assert folder.metrics_file.read_text().count("file_digest") == 3


def test_no_metrics_of_an_earlier_agentgym_are_lost_when_the_first_stage_of_a_resumed_run_only_logs(tmp_path):
    folder = RunFolder(tmp_path).create()
    folder.metrics_file.write_text('{"time": 1, "step": 1, "phase": "train"}\n')
    folder.forget((), 0)  # as every resumed run does
    folder.log(1, "evaluation")
    assert [row["phase"] for row in folder.metrics()] == ["train", "evaluation"]
