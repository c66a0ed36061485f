"""What training has seen of held-out tasks is found: neighbouring seeds, near duplicates, pieces in a corpus."""

from __future__ import annotations

import random
import subprocess
import sys

import numpy as np
import pytest

from agentgym import RolloutConfig, ScriptedPolicy, Task, TaskSet, evaluate, seed_of
from agentgym.errors import EvaluationError, SplitLeakError
from agentgym.evaluation.held_out_uses import HeldOutUse, held_out_uses, note_use
from agentgym.methods.contamination.comparison import SHINGLE, contamination, search_corpus, words_of
from agentgym.task.task_set import canary_of
from agentgym.testing import Counter, TargetReached

WORDS = [f"word{i}" for i in range(400)]


def item(split: str, index: int, stream: random.Random, numbered: bool = True) -> Task:
    """One generated problem, as a public generator library makes them: words and a number out of one stream."""
    prompt = f"How many letters have {' '.join(stream.choices(WORDS, k=9))} and {stream.randrange(10**6)} more?"
    parameters = {"source_index": index, "seed": index} if numbered else {}
    return Task(f"{split}-{index}", "acme/none-v1", prompt, parameters=parameters, truth=1, split=split)


def by_neighbouring_seeds(numbered: bool = True) -> dict[str, list[Task]]:
    """The pattern of the library's own example: seed 1 for training, 2 for validation, Random(seed + index)."""
    return {
        split: [item(split, i, random.Random(seed + i), numbered) for i in range(500)]
        for split, seed in (("train", 1), ("validation", 2))
    }


def test_names_of_nested_records_tell_tasks_apart():
    def ticket_task(split, *names):
        parameters = {"data": {"tickets": {name: {"status": "new"} for name in names}}}
        return Task(split, "acme/none-v1", "Close one ticket.", parameters=parameters, truth=1, split=split)

    known = ticket_task("train", "loud fan", "old lamp")
    assert contamination([known], [ticket_task("held_out", "loud fan", "wet door")]).leaked == 0
    assert contamination([known], [ticket_task("held_out", "loud fan", "old lamp")]).leaked == 1


@pytest.mark.parametrize("numbered", [True, False])
def test_neighbouring_generator_seeds_are_caught_when_the_task_set_is_built(numbered):
    """499 of the 500 validation tasks are training tasks; without numbers the content check sees it, else this one."""
    splits = by_neighbouring_seeds(numbered)
    assert contamination(splits["train"], splits["validation"]).leaked == 499
    with pytest.raises(SplitLeakError, match="seed_of" if numbered else "asks the same as"):
        TaskSet("acme/leaky-v1", splits)


def test_seeds_by_hash_share_nothing():
    splits = {
        split: [item(split, i, random.Random(seed_of("acme/sound-v1", split, 0, i))) for i in range(500)]
        for split in ("train", "validation")
    }
    assert len(TaskSet("acme/sound-v1", splits)["train"]) == 500
    assert contamination(splits["train"], splits["validation"]).overlaps == []


def test_tasks_that_only_a_seed_tells_apart_are_no_leak_and_are_counted():
    splits = {
        split: [Task(f"{split}{i}", "e", "Play.", parameters={"seed": start + i}, split=split) for i in range(50)]
        for split, start in (("train", 0), ("held_out", 100))
    }
    TaskSet("acme/games-v1", splits)
    result = contamination(splits["train"], splits["held_out"])
    assert (result.overlaps, result.told_apart_by_seed) == ([], 50)


def test_a_knob_and_a_seed_that_make_an_environment_are_no_leak_though_few_tasks_share_them():
    """Rooms and items are drawn, the seed makes the house: words may well be those of a training task."""
    rng = random.Random(0)
    splits = {
        split: [
            Task(
                f"{split}{i}",
                "e",
                f"Find the key in {rng.randrange(20)} rooms.",
                split=split,
                truth=None,
                parameters={"items": rng.randrange(9), "seed": seed_of("acme/houses-v1", split, i)},
            )
            for i in range(size)
        ]
        for split, size in (("train", 400), ("held_out", 60))
    }
    TaskSet("acme/houses-v1", splits)
    result = contamination(splits["train"], splits["held_out"])
    assert result.leaked == 0
    assert result.told_apart_by_seed > 30


def test_near_duplicates_are_found_though_all_tasks_share_a_template():
    rng = random.Random(0)
    train = [
        Task(f"t{i}", "e", f"Please answer this question with care now: {' '.join(rng.choices(WORDS, k=20))}?")
        for i in range(300)
    ]
    fresh = [
        Task(f"h{i}", "e", f"Please answer this question with care now: {' '.join(rng.choices(WORDS, k=20))}?")
        for i in range(50)
    ]
    copied = train[7].prompt.replace("Please", "Kindly").upper().split()
    copied[-1] = "another?"
    result = contamination(train, [*fresh, Task("copy", "e", " ".join(copied))])
    assert [(overlap.kind, overlap.train, overlap.held_out) for overlap in result.overlaps] == [("near", "t7", "copy")]
    assert result.overlaps[0].similarity > 0.8


def test_banding_finds_what_comparing_every_pair_finds():
    rng = np.random.default_rng(0)
    train = [Task(f"t{i}", "e", " ".join(rng.choice(WORDS, 24))) for i in range(150)]
    held = []
    for i in range(100):
        words = words_of(train[i])
        for position in rng.choice(24, i % 4, replace=False):
            words[int(position)] = "changed"
        held.append(Task(f"h{i}", "e", " ".join(words)))

    def shingles(task: Task) -> set[tuple[str, ...]]:
        words = words_of(task)
        return {tuple(words[i : i + SHINGLE]) for i in range(len(words) - SHINGLE + 1)}

    want = {h.id for h in held for t in train if len(shingles(h) & shingles(t)) / len(shingles(h) | shingles(t)) >= 0.6}
    got = {overlap.held_out for overlap in contamination(train, held, threshold=0.6).overlaps}
    assert 40 < len(want) < 100
    assert got == want


def test_a_threshold_that_is_no_share_is_refused():
    with pytest.raises(EvaluationError, match="threshold = 0"):
        contamination([], [], threshold=0)


def test_a_corpus_with_a_held_out_task_or_its_canary_is_found():
    held = [item("held_out", i, random.Random(i)) for i in range(20)]
    lines = ["nothing of note", f"Somebody wrote: {held[3].prompt.upper()} and went.", canary_of("acme/x-v1")]
    hits = search_corpus(held, lines, canary=canary_of("acme/x-v1"))
    assert set(hits.tasks) == {"held_out-3"}
    assert (hits.canaries, hits.lines, hits.held_out) == (1, 3, 20)
    assert not search_corpus(held, ["How many letters have the words"], canary="c").tasks


def test_a_file_with_held_out_tasks_carries_its_canary_and_reads_back_equal(tmp_path):
    task_set = TaskSet("acme/x-v1", {"held_out": [item("held_out", i, random.Random(i)) for i in range(3)]})
    task_set.to_jsonl(tmp_path / "x.jsonl")
    assert canary_of("acme/x-v1") in (tmp_path / "x.jsonl").read_text().splitlines()[0]
    assert TaskSet.from_jsonl(tmp_path / "x.jsonl", name="acme/x-v1").fingerprint() == task_set.fingerprint()
    assert canary_of("acme/x-v1") != canary_of("acme/y-v1")


async def test_every_evaluation_of_a_held_out_split_is_noted_once(tmp_path, monkeypatch):
    monkeypatch.setenv("AGENTGYM_STATE_DIR", str(tmp_path))
    tasks = [Task(f"h{i}", "acme/counter-v1", f"Count to {i}.", truth=i, split="held_out") for i in range(3)]
    chosen = TaskSet("acme/c-v1", {"held_out": tasks, "validation": []})
    silent = ScriptedPolicy(lambda messages: "no")
    config = RolloutConfig(environment=Counter, reward=TargetReached())
    uses = [
        (await evaluate(silent, chosen, label=label, config=config)).held_out_uses for label in ("a", "b", "b", "c")
    ]
    assert uses == [0, 1, 1, 2]  # the third goes on with the second
    assert [entry.label for entry in held_out_uses("acme/c-v1", chosen.fingerprint())] == ["a", "b", "c"]
    (tmp_path / "held_out.jsonl").write_text('{"cut sh')
    assert held_out_uses("acme/c-v1", chosen.fingerprint()) == []


def test_a_state_folder_that_cannot_be_written_to_stops_nothing(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("AGENTGYM_STATE_DIR", str(tmp_path / "file" / "below"))
    use = HeldOutUse("s", "f", "m", policy="p", label="l", seed=0, tasks=1)
    assert note_use(use) is None
    monkeypatch.setenv("AGENTGYM_STATE_DIR", "off")
    assert note_use(use) is None


def test_the_command_says_what_leaks_and_fails(tmp_path):
    train = [item("train", i, random.Random(i)) for i in range(30)]
    clean = TaskSet(
        "clean", {"train": train, "held_out": [item("held_out", i, random.Random(900 + i)) for i in range(9)]}
    )
    clean.to_jsonl(tmp_path / "clean.jsonl")
    (tmp_path / "corpus.txt").write_text(clean["held_out"][4].prompt + "\n")
    run = [sys.executable, "-c", "from agentgym.cli import main; main()"]
    run += ["tasks", "check", str(tmp_path / "clean.jsonl")]
    done = subprocess.run(run, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "0 of 9 the same" in done.stdout
    done = subprocess.run([*run, "--corpus", str(tmp_path / "corpus.txt")], capture_output=True, text=True)
    assert done.returncode == 1
    assert "held_out-4" in done.stdout
    assert "1 held-out tasks leak" in done.stderr
