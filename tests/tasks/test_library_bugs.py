"""`swe/javascript-v1` and `swe/c-v1`: every bug is one edit, some tests catch it, and the oracle's edit reverses it."""

from __future__ import annotations

import shutil

import pytest

from agentgym import EpisodeManager, ScriptedPolicy, close_backends, load_task_set
from agentgym.tasks.library_bugs.libraries import LANGUAGES, libraries


@pytest.fixture(scope="module", params=LANGUAGES)
def bugs(request):
    return load_task_set(f"swe/{request.param}-v1")


def test_every_bug_is_one_edit_and_the_gold_patch_takes_it_back(bugs):
    texts = {
        library.path: library.files[library.path] for language in LANGUAGES.values() for library in libraries(language)
    }
    for task in (task for split in bugs for task in bugs[split]):
        path = task.prompt.partition(" ")[0]
        wrong, (old, new) = task.parameters["files"][path], task.truth["replace"]
        assert wrong.count(old) == 1, task.id
        assert wrong.replace(old, new) == texts[path], task.id
        assert set(task.truth["fail_to_pass"]).isdisjoint(task.truth["pass_to_pass"])
        assert task.truth["fail_to_pass"]
        assert new not in task.prompt


def test_libraries_that_are_held_out_are_in_no_other_split(bugs):
    sizes = {split: len(bugs[split]) for split in bugs}
    assert sizes["train"] >= 80
    assert sizes["held_out"] >= 50
    known = {task.tags[0] for split in ("train", "validation") for task in bugs[split]}
    assert known.isdisjoint({task.tags[0] for task in bugs["held_out"]})


def test_the_code_of_every_test_is_known():
    for language in LANGUAGES.values():
        for library in libraries(language):
            assert len(library.tests) >= 11
            assert all(code.strip() for code in library.tests.values()), library.name


@pytest.mark.needs_namespaces
async def test_the_oracles_of_a_held_out_library_do_what_they_say(bugs):
    task = bugs["held_out"][0]
    program = {"node": "node", "ctest": "cmake"}[task.parameters["runner"]]
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    outcomes = []
    for player in (bugs.oracle, bugs.imperfect_oracle):
        [episode] = await EpisodeManager(lambda task, play=player: ScriptedPolicy(play(task))).collect([task])
        assert episode.valid, episode.error
        outcomes.append((episode.outcome["success"], episode.outcome["modified"]))
    assert outcomes == [(1.0, 1.0), (0.0, 1.0)]
    await close_backends()
