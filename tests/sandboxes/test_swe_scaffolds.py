"""What a repository task may bring: files shown at the start, packages beside it; and the real instances that run."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

import agentgym
from agentgym import Call, EpisodeManager, Message, ScriptedPolicy, Task, load_task_set
from agentgym.errors import TaskError
from agentgym.sandboxes.swe.sources import archive
from agentgym.tasks.importers.swebench import load_swebench

pytestmark = pytest.mark.needs_namespaces

INSTANCES = Path(__file__).parents[3] / "shared/data/swebench_format_12/instances.jsonl"
FILES = {
    "one.py": "a = 1\nb = 2\n",
    "two.py": "a = 1\n",
    "test_one.py": "from one import b\n\n\ndef test():\n    assert b == 3\n",
}
TRUTH = {"fail_to_pass": ["test_one.py::test"], "tests": ["test_*.py"]}


def task(environment="agentgym/swe-given-v1", files=FILES, **parameters):
    return Task("t", environment, "b is 2.", parameters={"files": files, **parameters}, truth=TRUTH)


async def play(of, *calls):
    script = [Message("assistant", "", (call,)) for call in [*calls, Call("submit")]]
    [episode] = await EpisodeManager(ScriptedPolicy(script)).collect([of])
    assert episode.valid, episode.error
    return episode


async def test_where_the_code_is_shown_there_is_nothing_but_edits_of_it():
    environment = agentgym.make("agentgym/swe-given-v1")
    assert list(environment.tools) == ["edit", "submit"]
    opening = await environment.reset(task(shown=["one.py", "two.py"]).public(), seed=0)
    assert opening[-1].text == "b is 2.\n\none.py:\na = 1\nb = 2\n\n\ntwo.py:\na = 1\n"
    twice = await environment.call(Call("edit", {"old": "a = 1", "new": "a = 3"}))
    assert "`old` occurs in one.py, two.py" in twice.content
    assert "does not occur in one.py" in (await environment.call(Call("edit", {"old": "b = 7", "new": "c"}))).content
    assert not (await environment.call(Call("view", {"path": "one.py"}))).ok
    assert (
        await environment.call(Call("edit", {"old": "b = 2", "new": "b = 3"}))
    ).content == "Replaced at line 2 of one.py."
    await environment.close()


@pytest.mark.parametrize(("paths", "expected"), [([], "has no parameters"), (["gone.py"], "no file 'gone.py'")])
async def test_a_task_that_shows_nothing_is_named(paths, expected):
    environment = agentgym.make("agentgym/swe-given-v1")
    with pytest.raises(TaskError, match=expected):
        await environment.reset(task(shown=paths).public(), seed=0)
    await environment.close()


@pytest.mark.thorough
async def test_players_of_the_small_repositories_edit_what_is_shown():
    tasks = load_task_set("swe/one-line-given-v1")
    first = tasks["train"][0]
    for script, success in ((tasks.oracle, 1), (tasks.imperfect_oracle, 0)):
        [episode] = await EpisodeManager(ScriptedPolicy(script(first))).collect([first])
        assert [result.status.value for turn in episode.turns for result in turn.results] == ["ok", "ok"]
        assert episode.outcome["success"] == success


async def test_packages_lie_beside_the_repository_and_are_importable_there(tmp_path, monkeypatch):
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path))
    (tmp_path / "sources").mkdir()
    with tarfile.open(tmp_path / "sources" / "three==3.0.tar.gz", "w:gz") as tar:
        info = tarfile.TarInfo("three-3.0/src/three.py")
        info.size = len(b"THREE = 3\n")
        tar.addfile(info, io.BytesIO(b"THREE = 3\n"))
    files = {**FILES, "test_one.py": FILES["test_one.py"].replace("b == 3", "b == three.THREE") + "\n\nimport three\n"}
    of = task("agentgym/swe-v1", files, packages=["three==3.0"])
    spoil = Call("shell", {"command": "echo THREE = 2 > ../packages/three==3.0/src/three.py"})
    assert (await play(of, spoil)).outcome["success"] == 0, "what lies beside is no part of what is handed in"
    mended = await play(of, Call("replace", {"path": "one.py", "old": "2", "new": "3"}), Call("test"))
    assert mended.turns[1].results[0].content.startswith("[all passed]")
    assert mended.outcome["success"] == 1
    for wrong in ("../three", "three"):
        with pytest.raises(TaskError, match="Write it as name==version"):
            await agentgym.make("agentgym/swe-v1").reset(task("agentgym/swe-v1", packages=[wrong]).public(), seed=0)


@pytest.mark.slow
@pytest.mark.skipif(not INSTANCES.is_file(), reason="the shared data is not beside this checkout")
@pytest.mark.skipif(
    not (archive("Django==2.2b1") and archive("pytz==2018.9")), reason="Django's source is not in the cache"
)
@pytest.mark.filterwarnings("ignore:.*left out")
async def test_a_real_instance_is_solved_by_its_gold_patch_and_by_nothing_else(tmp_path):
    tasks = load_swebench(INSTANCES, mirrors=tmp_path)["held_out"]
    of = next(task for task in tasks if task.id == "django__django-11049")
    assert (await play(of)).outcome["success"] == 0
    mended = await play(
        of,
        Call("patch", {"diff": of.truth["gold"]}),
        Call("test", {"selection": "tests/model_fields/test_durationfield.py"}),
    )
    assert "[not all passed]" in mended.turns[1].results[0].content, "the new test is not in what the agent sees"
    assert mended.outcome["success"] == 1
