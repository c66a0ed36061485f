"""The record on disk: whole, exact, resumable, and clear about what is wrong with a file."""

from __future__ import annotations

import asyncio
import sqlite3

import pytest
from scripted_episodes import counting, make_manager, play, say, task

from agentgym import Budgets, EpisodeManager, RolloutConfig, ScriptedPolicy, Trajectory, Turn
from agentgym.errors import LedgerError, SandboxDied
from agentgym.messages import Message, StopReason
from agentgym.storage.ledger import Ledger
from agentgym.testing import ByteRenderer, Counter, CounterWithState, FakeClock, TargetReached


@pytest.fixture
def ledger(tmp_path):
    opened = Ledger(tmp_path / "runs" / "one" / "ledger.sqlite")
    yield opened
    opened.close()


def manager(ledger, script=None, **options):
    options = {"environment": CounterWithState, "reward": TargetReached(), **options}
    return make_manager(ScriptedPolicy(script or counting(2), ByteRenderer()), ledger=ledger, **options)


async def test_what_is_loaded_equals_what_was_played(ledger):
    trajectories = await manager(ledger).collect([task("a"), task("b")], group_size=2)
    assert [ledger.load(t.id) for t in trajectories] == trajectories
    assert sorted(t.id for t in ledger.trajectories()) == sorted(t.id for t in trajectories)
    assert ledger.finished("run") == {t.id for t in trajectories}


async def test_finished_episodes_are_handed_over_and_not_played_again(ledger, tmp_path):
    requested = []

    class Asking(ScriptedPolicy):
        async def generate(self, request):
            requested.append(request.episode)
            return await super().generate(request)

    first = await manager(ledger).collect([task("a"), task("b")])
    reopened = EpisodeManager(
        Asking(counting(2)), RolloutConfig(environment=CounterWithState, reward=TargetReached()), ledger=ledger
    )
    trajectories = await reopened.collect([task("a"), task("new"), task("b")])
    assert set(requested) == {"run/new#0"}
    assert [trajectories[0], trajectories[2]] == first
    assert trajectories[1].id == "run/new#0"


def test_an_interrupted_episode_is_played_from_scratch_and_keeps_no_old_turn(tmp_path):
    path = tmp_path / "ledger.sqlite"

    async def interrupted():
        ledger = Ledger(path)
        playing = asyncio.ensure_future(
            manager(ledger, [say("slow_add")] * 9, environment=lambda: Counter(1.0)).collect([task("a")])
        )
        await asyncio.sleep(5.5)
        playing.cancel()
        await asyncio.gather(playing, return_exceptions=True)
        interrupted_record = ledger.load("run/a#0")
        ledger.close()
        return interrupted_record

    interrupted_record = FakeClock().run(interrupted())
    assert len(interrupted_record.turns) == 5
    assert interrupted_record.stop_reason is None
    assert not interrupted_record.valid

    async def resumed():
        ledger = Ledger(path)
        assert ledger.finished("run") == set()
        assert list(ledger.trajectories()) == []
        trajectories = await manager(ledger).collect([task("a")])
        loaded = ledger.load("run/a#0")
        ledger.close()
        return trajectories[0], loaded

    trajectory, loaded = asyncio.run(resumed())
    assert trajectory == loaded
    assert len(loaded.turns) == 3


async def test_each_turn_is_on_disk_before_the_next_begins(ledger):
    seen = []

    class Reading(ScriptedPolicy):
        async def generate(self, request):
            with sqlite3.connect(ledger.path) as other:
                seen.append(other.execute("SELECT count(*) FROM turn").fetchone()[0])
            other.close()
            return await super().generate(request)

    await EpisodeManager(Reading(counting(3)), RolloutConfig(environment=Counter), ledger=ledger).collect([task()])
    assert seen == [0, 1, 2, 3]


async def test_turns_that_finish_together_share_a_commit(ledger):
    commits = []
    ledger._connection.set_trace_callback(lambda sql: commits.append(sql) if sql == "COMMIT" else None)
    await manager(ledger, concurrency=50).collect([task(f"t{n}") for n in range(50)])
    ledger._connection.set_trace_callback(None)
    assert len(commits) <= 5  # 150 turns and 50 ends


async def test_an_episode_that_starts_over_keeps_nothing_of_its_first_attempt(ledger):
    class Dying(Counter):
        died = False

        async def close(self):
            pass

        async def respond(self, message):
            if not Dying.died:
                Dying.died = True
                raise SandboxDied("gone")
            return []

    script = [say("add"), say("add"), Message("assistant", "done")]
    trajectories = await manager(ledger, script, environment=Dying).collect([task()])
    assert trajectories[0].stop_reason is StopReason.ANSWERED
    assert ledger.load(trajectories[0].id) == trajectories[0]

    class NoSecondReset(Counter):
        resets = 0

        async def reset(self, task, *, seed):
            NoSecondReset.resets += 1
            if NoSecondReset.resets > 1:
                raise RuntimeError("no second world")
            return await super().reset(task, seed=seed)

        async def respond(self, message):
            raise SandboxDied("gone")

    trajectories = await manager(ledger, script, environment=NoSecondReset, label="other").collect([task()])
    assert trajectories[0].stop_reason is StopReason.INFRA_ERROR
    assert ledger.load(trajectories[0].id) == trajectories[0]
    assert trajectories[0].turns == []


def test_an_episode_that_ends_by_time_is_kept_without_the_observation_nobody_read(tmp_path):
    async def playing():
        ledger = Ledger(tmp_path / "l.sqlite")

        script = [say("add"), say("slow_add")]
        episodes = manager(ledger, script, environment=lambda: Counter(latency_s=10.0), budgets=Budgets(time_s=5))
        trajectories = await episodes.collect([task()])
        loaded = ledger.load(trajectories[0].id)
        ledger.close()
        return trajectories[0], loaded

    trajectory, loaded = FakeClock().run(playing())
    assert trajectory.stop_reason is StopReason.TIME
    assert trajectory == loaded
    assert loaded.turns[-1].observation_ids == []


async def test_runs_whose_names_begin_alike_are_told_apart(ledger):
    for run in ("step1", "step10", "step1/b"):
        await manager(ledger, label=run).collect([task("a")])
    assert ledger.finished("step1") >= {"step1/a#0"}
    assert "step10/a#0" not in ledger.finished("step1")
    assert [t.id for t in ledger.trajectories("step1/")] == ["step1/a#0", "step1/b/a#0"]
    assert [t.id for t in ledger.trajectories("step10")] == ["step10/a#0"]


async def test_the_last_label_is_that_of_the_episode_that_began_last(ledger):
    assert ledger.last_label("step") is None
    for run in ("step1", "step2", "other"):
        await manager(ledger, label=run).collect([task("a"), task("b")])
    assert (ledger.last_label("step"), ledger.last_label(), ledger.last_label("none")) == ("step2", "other", None)


async def test_every_episode_is_listed_also_beyond_one_page(ledger):
    await manager(ledger, label="many").collect([task(f"t{n}") for n in range(250)])
    assert len({t.id for t in ledger.trajectories("many")}) == 250


async def test_a_task_whose_truth_is_no_json_is_named(ledger):
    from dataclasses import replace

    with pytest.raises(LedgerError, match=r"'run/odd#0' cannot be recorded.*set"):
        await manager(ledger).collect([replace(task("odd"), truth={1, 2})])


def test_an_unknown_episode_says_how_ids_look(ledger):
    with pytest.raises(LedgerError, match=r"has no episode 'x'.*<label>/<task id>#<sample>"):
        ledger.load("x")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"this is a text file, and long enough to be read as one" * 99, "damaged or not a ledger"),
        (b"SQLite format 3\0" + b"\xff" * 5000, "cannot be opened"),
    ],
)
def test_a_file_that_is_no_ledger_is_refused_and_left_as_it_is(tmp_path, content, words):
    path = tmp_path / "ledger.sqlite"
    path.write_bytes(content)
    with pytest.raises(LedgerError, match=words) as caught:
        Ledger(path)
    assert str(path) in str(caught.value)
    assert path.read_bytes() == content


def test_somebody_elses_database_is_refused_and_left_as_it_is(tmp_path):
    path = tmp_path / "theirs.sqlite"
    with sqlite3.connect(path) as theirs:
        theirs.execute("CREATE TABLE customers (name)")
    theirs.close()
    before = path.read_bytes()
    with pytest.raises(LedgerError, match=r"not a ledger.*customers"):
        Ledger(path)
    assert path.read_bytes() == before


def test_a_ledger_of_another_version_is_refused(tmp_path):
    path = tmp_path / "l.sqlite"
    Ledger(path).close()
    with sqlite3.connect(path) as other:
        other.execute("UPDATE meta SET value = '99' WHERE name = 'schema_version'")
    other.close()
    with pytest.raises(LedgerError, match=r"version '99'.*needs version '1'"):
        Ledger(path)


def test_a_path_that_cannot_be_made_is_an_error_with_advice(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(LedgerError, match="cannot be opened"):
        Ledger(tmp_path / "file" / "ledger.sqlite")


async def test_missing_turns_are_never_read_back_as_a_whole_episode(ledger):
    trajectories = await manager(ledger).collect([task()])
    ledger._connection.execute("DELETE FROM turn WHERE number = 1")
    with pytest.raises(LedgerError, match="should have 3 turns, but has 2"):
        ledger.load(trajectories[0].id)


async def test_a_full_disk_stops_the_run_names_the_file_and_keeps_what_was_finished(tmp_path):
    path = tmp_path / "ledger.sqlite"
    ledger = Ledger(path)
    first = await manager(ledger, label="before").collect([task("a")])
    pages = ledger._connection.execute("PRAGMA page_count").fetchone()[0]
    ledger._connection.execute(f"PRAGMA max_page_count = {pages + 2}")  # SQLite's own way to be out of space
    with pytest.raises(LedgerError, match=r"ledger\.sqlite cannot be written.*full.*free some space"):
        await manager(ledger, label="after").collect([task(f"t{n}") for n in range(200)])
    ledger.close()

    reopened = Ledger(path)
    assert reopened.finished("before") == {"before/a#0"}
    assert reopened.load("before/a#0") == first[0]
    done = reopened.finished("after")
    assert all(len(reopened.load(episode).turns) == 3 for episode in done)
    trajectories = await manager(reopened, label="after").collect([task(f"t{n}") for n in range(200)])
    assert len(trajectories) == len(reopened.finished("after")) == 200
    reopened.close()


async def test_a_ledger_that_another_process_writes_is_an_error_that_says_so(ledger, monkeypatch):
    ledger._connection.execute("PRAGMA busy_timeout = 10")
    other = sqlite3.connect(ledger.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        with pytest.raises(LedgerError, match=r"locked.*Another process is writing it"):
            await manager(ledger).collect([task()])
    finally:
        other.execute("ROLLBACK")
        other.close()
    assert [t.valid for t in await manager(ledger).collect([task()])] == [True]  # and it works once it is free


async def test_a_closed_ledger_says_that_it_was_closed(tmp_path):
    ledger = Ledger(tmp_path / "l.sqlite")
    ledger.close()
    ledger.close()
    with pytest.raises(LedgerError, match="closed: open it again"):
        ledger.load("x")


async def test_an_unfinished_episode_cannot_be_finished(ledger):
    with pytest.raises(ValueError, match="no stop reason"):
        await ledger.finish(Trajectory("r/t#0", task()))


async def test_turns_are_written_in_order(ledger):
    trajectory = Trajectory("r/t#0", task())
    with pytest.raises(ValueError, match="turn 3 cannot be written, because turn 0 comes next"):
        await ledger.write_turn(trajectory, Turn(3, Message("assistant")))
    for index in range(3):
        await ledger.write_turn(trajectory, Turn(index, Message("assistant")))
    with pytest.raises(ValueError, match="turn 1 cannot be written, because turn 3 comes next"):
        await ledger.write_turn(trajectory, Turn(1, Message("assistant")))


async def test_the_last_turn_of_an_episode_loses_the_observation_that_it_was_written_with(ledger):
    turns = [Turn(index, Message("assistant"), observation_ids=[7]) for index in range(2)]
    trajectory = Trajectory("r/t#0", task(), turns=turns)
    for turn in turns:
        await ledger.write_turn(trajectory, turn)
    turns[-1].observation_ids, trajectory.stop_reason = [], StopReason.TIME
    await ledger.finish(trajectory)
    assert [turn.observation_ids for turn in ledger.load("r/t#0").turns] == [[7], []]


def test_one_ledger_serves_one_event_loop_after_another(ledger):
    for run in ("first", "second"):
        assert len(asyncio.run(manager(ledger, label=run).collect([task()]))) == 1
    assert len(list(ledger.trajectories())) == 2


async def test_a_failed_episode_is_kept_with_its_error(ledger):
    class Broken(Counter):
        async def reset(self, task, *, seed):
            raise RuntimeError("no world")

    trajectory = await play(counting(2), environment=Broken, ledger=ledger)
    assert ledger.load(trajectory.id) == trajectory
    assert trajectory.error.startswith("RuntimeError: no world at ")


@pytest.mark.parametrize("name", ["a/b#1", "ünï", "x" * 5000, "%_'\"", "nul \x00"])
async def test_any_task_id_is_kept(ledger, name):
    trajectories = await manager(ledger).collect([task(name)])
    assert ledger.finished("run") == {trajectories[0].id}
    assert ledger.load(trajectories[0].id) == trajectories[0]


async def test_what_cannot_be_stored_is_an_error_and_nobody_waits_for_ever(ledger):
    odd = Trajectory("run/\ud800#0", task(), stop_reason=StopReason.ANSWERED)
    with pytest.raises(LedgerError, match="cannot be stored"):
        await asyncio.wait_for(ledger.finish(odd), 20)
