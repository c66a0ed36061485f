"""Old names work for one release and warn with the new name; docs/stability.md promises it."""

from __future__ import annotations

import sys
import types
import warnings
from dataclasses import dataclass
from importlib import import_module

import pytest

from agentgym import (
    Budgets,
    Call,
    Environment,
    EpisodeManager,
    Message,
    Reward,
    RolloutConfig,
    ScriptedPolicy,
    Task,
    TaskSet,
    evaluate,
    load_task_set,
    tool,
)
from agentgym.deprecation import (
    REMOVED_IN,
    AgentGymDeprecationWarning,
    adopt_renamed_members,
    current_name,
    moved_module,
    renamed_attributes,
    renamed_keys,
    renamed_keywords,
    renamed_member,
    renamed_options,
    warn_renamed,
)
from agentgym.policy import ChatApiPolicy, JsonEndpoint, RetryPolicy, Sampling
from agentgym.rollout import Fork
from agentgym.rollout.old_keywords import takes_old_keywords
from agentgym.storage import Ledger
from agentgym.tools import Tool, ToolOptions

BUDGETS = Budgets(max_turns=2)


def warns(match: str):
    return pytest.warns(AgentGymDeprecationWarning, match=match)


def test_the_warning_is_a_deprecation_warning_that_names_both_names_and_the_release():
    with warns("old") as caught:
        warn_renamed("old", "new", advice="Do so.")
    assert isinstance(caught[0].message, DeprecationWarning)
    assert str(caught[0].message) == f"old is now new. The old name stops working in agentgym {REMOVED_IN}. Do so."


def test_a_warning_points_at_the_line_that_uses_the_old_name():
    @renamed_keywords(old="new")
    def function(new):
        return new

    with warns("old") as caught:
        function(old=1)
    assert caught[0].filename == __file__


@pytest.fixture
def a_module():
    name = "agentgym_deprecation_test"
    sys.modules[name] = types.ModuleType(name)
    yield sys.modules[name]
    del sys.modules[name]


def test_an_old_name_in_a_module_is_forwarded(a_module):
    a_module.__getattr__ = renamed_attributes(a_module.__name__, {"Old": "agentgym.task.Task"})
    with warns(r"agentgym_deprecation_test.Old is now agentgym.task.Task") as caught:
        Old = a_module.Old
    from agentgym import Task

    assert Old is Task
    assert caught[0].filename == __file__
    with pytest.raises(AttributeError, match="no attribute 'Other'"):
        a_module.Other  # noqa: B018


def test_a_module_that_moved_forwards_public_names_alone(a_module):
    a_module.__getattr__ = moved_module(a_module.__name__, "agentgym.task")
    with warns("agentgym_deprecation_test.Task is now agentgym.task.Task"):
        assert a_module.Task.__name__ == "Task"
    with pytest.raises(AttributeError):
        a_module.__path__  # noqa: B018


def test_the_import_paths_of_the_first_release_still_work():
    with warns("EpisodeManager"):
        from agentgym.episode.manager import EpisodeManager
    with warns("Budgets"):
        from agentgym.episode.budgets import Budgets
    assert (EpisodeManager.__name__, Budgets.__name__) == ("EpisodeManager", "Budgets")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("agentgym.sandbox.prepared.shared_snapshot", "agentgym.sandbox.shared_snapshot"),
        ("agentgym.reward.EpisodeView", "agentgym.Trajectory"),
        ("agentgym.reward.TurnView", "agentgym.Turn"),
        ("agentgym.reward.contract.EpisodeView", "agentgym.Trajectory"),
        ("agentgym.reward.judged", "agentgym.reward.validate_components"),
        ("agentgym.reward.judged_each", "agentgym.reward.validate_each"),
        ("agentgym.interop.gymnasium.Played", "agentgym.interop.GymnasiumEpisode"),
        ("agentgym.interop.toy_text.Words", "agentgym.interop.ActionText"),
        ("agentgym.sandbox.images.Image", "agentgym.sandbox.rootfs.RootFilesystem"),
        ("agentgym.sandbox.images.cache", "agentgym.sandbox.rootfs.cache_folder"),
        ("agentgym.sandbox.images.prepare", "agentgym.sandbox.rootfs.prepare_rootfs"),
        ("agentgym.policy.http.Patience", "agentgym.policy.RetryPolicy"),
        ("agentgym.policy.http.PATIENT", "agentgym.policy.http.DEFAULT_RETRY_POLICY"),
        ("agentgym.interop.gymnasium.GymnasiumWorld", "agentgym.interop.GymnasiumEnvironment"),
        ("agentgym.testing.backends.Case", "agentgym.testing.backends.BackendCheck"),
        ("agentgym.testing.backends.Verdict", "agentgym.testing.backends.CheckVerdict"),
        ("agentgym.training.signals.Source", "agentgym.training.SignalProvider"),
        ("agentgym.training.signals.with_rows", "agentgym.credit.with_signal_rows"),
        ("agentgym.training.signals.with_signal_rows", "agentgym.credit.with_signal_rows"),
        ("agentgym.training.warm_start.demonstrations", "agentgym.training.demonstrations"),
        ("agentgym.sandboxes.swe.parameters.Parameters", "agentgym.sandboxes.swe.parameters.RepositoryParameters"),
        ("agentgym.tools.tools_of", "agentgym.tools.collect_tools"),
        ("agentgym.episode.branch.Fork", "agentgym.rollout.Fork"),
        ("agentgym.episode.branch.Divergence", "agentgym.rollout.Divergence"),
        ("agentgym.episode.branch.tree_labels", "agentgym.rollout.tree_labels"),
        ("agentgym.episode.run_folder.RunFolder", "agentgym.storage.RunFolder"),
        ("agentgym.tasks.lottery.Lottery", "agentgym.tasks.generator.TaskGenerator"),
        ("agentgym.tasks.lottery.Place", "agentgym.tasks.generator.TaskSlot"),
    ],
)
def test_an_old_import_gives_what_the_new_one_gives(old, new):
    (old_module, _, old_name), (new_module, _, new_name) = old.rpartition("."), new.rpartition(".")
    with warns(new):
        moved = getattr(import_module(old_module), old_name)
    assert moved is getattr(import_module(new_module), new_name)


def test_the_retry_policy_of_an_endpoint_may_still_be_called_patience():
    with warns(r"patience= of JsonEndpoint\(\) is now retry_policy="):
        endpoint = JsonEndpoint("http://127.0.0.1:1", patience=RetryPolicy(attempts=2))
    with warns("JsonEndpoint.patience is now JsonEndpoint.retry_policy"):
        assert endpoint.patience is endpoint.retry_policy
    with warns(r"patience= of ChatApiPolicy\(\) is now retry_policy="):
        ChatApiPolicy("http://127.0.0.1:1", "m", patience=RetryPolicy(attempts=2))


def test_old_keywords_of_budgets_and_task_sets_work():
    with warns(r"max_tokens= of Budgets\(\) is now max_episode_tokens="):
        budgets = Budgets(max_tokens=7)
    with warns("Budgets.max_tokens is now Budgets.max_episode_tokens"):
        assert budgets.max_tokens == budgets.max_episode_tokens == 7
    task = Task("a", "acme/a-v1", "Do it.")
    with warns("novice= of TaskSet"):
        task_set = TaskSet("acme/a-v1", {"train": [task]}, novice=len)
    with warns("TaskSet.novice"):
        assert task_set.novice is task_set.imperfect_oracle is len


def test_options_of_a_rollout_given_one_by_one_become_a_config():
    @takes_old_keywords
    def play(policy, *, config=None, label="run"):
        return config

    with warns(r"budgets=, seed= of .*play\(\) is now part of config=RolloutConfig"):
        config = play("policy", seed=3, budgets=Budgets(max_turns=2))
    assert config == RolloutConfig(seed=3, budgets=Budgets(max_turns=2))
    with warns("samples=, sampling="):
        config = play("policy", samples=4, sampling=Sampling(0.5, 0.9, 64))
    assert config == RolloutConfig(group_size=4, temperature=0.5, top_p=0.9, budgets=Budgets(max_turn_tokens=64))
    with pytest.raises(TypeError, match="config= was given beside seed="):
        play("policy", seed=3, config=RolloutConfig())


async def test_a_rollout_and_an_evaluation_as_version_0_1_wrote_them_still_run():
    tasks = load_task_set("text/number-guess-v1")["train"][:2]
    reports = []
    with (
        warns(r"budgets=, concurrency= of EpisodeManager"),
        warns(r"run= of EpisodeManager.__init__\(\) is now label="),
    ):
        manager = EpisodeManager(ScriptedPolicy(guess), budgets=Budgets(max_turns=2), concurrency=1, run="old")
    with warns(r"seen= of EpisodeManager.collect\(\) is now on_trajectory="):
        trajectories = await manager.collect(tasks, seen=reports.append)
    assert len(trajectories) == len(reports) == 2
    assert trajectories[0].id.startswith("old/")
    with warns(r"samples= of EpisodeManager.branch\(\) is now group_size="):
        branches = [branch async for branch in manager.branch([Fork(trajectories[0], 1)], samples=2)]
    assert len(branches) == 2
    with warns(r"samples=, seed= of evaluate"):
        evaluation = await evaluate(ScriptedPolicy(guess), "text/number-guess-v1", "train", limit=2, samples=2, seed=5)
    assert evaluation.group_size == 2


async def test_checkpoints_given_to_the_manager_are_filled_in():
    """Version 0.1 took them there; they are an argument of collect() now."""
    task = load_task_set("text/number-guess-v1")["train"][0]
    checkpoints = {(task.id, 0, 0): None}
    with warns(r"checkpoints= of EpisodeManager\(\) is now checkpoints= of its collect\(\)") as caught:
        manager = EpisodeManager(ScriptedPolicy(guess), RolloutConfig(budgets=BUDGETS), checkpoints=checkpoints)
    assert caught[0].filename == __file__
    await manager.collect([task])
    assert checkpoints[task.id, 0, 0] is not None


def test_a_tool_is_made_from_a_function_as_version_0_1_did():
    def double(self, number: int) -> int:
        """Double a number."""
        return 2 * number

    with warns(r"Tool\(function\) is now Tool.from_function\(function\)") as caught:
        old = Tool(double, ToolOptions(name="twice"))
    assert caught[0].filename == __file__
    assert old.schema() == Tool.from_function(double, ToolOptions(name="twice")).schema()
    assert old.validate({"number": "4"}) == {"number": 4}
    with warns(r"Tool\(function\)"):
        assert Tool(function=double).name == "double"
    with pytest.raises(TypeError):
        Tool("double")


def test_a_ledger_is_asked_for_runs_by_the_old_names(tmp_path):
    ledger = Ledger(tmp_path / "ledger.sqlite")
    with warns("Ledger.last_run is now Ledger.last_label"):
        assert ledger.last_run() is None
    with warns(r"run= of Ledger.finished\(\) is now label="):
        assert ledger.finished(run="run") == set()
    ledger.close()


def guess(messages):
    return Message("assistant", "", (Call("guess", {"number": 30}),))


def test_importing_a_moved_module_warns_of_nothing():
    """Only using a name from it does: tools that import every module would warn otherwise."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        import agentgym.episode.ledger  # noqa: F401


async def test_an_environment_that_overrides_old_names_is_honoured():
    with warns("Maze.progress is now Maze.potential"), warns("Maze.missing is now Maze.unavailable_reason"):

        class Maze(Environment):
            async def progress(self):
                return 0.5

            @classmethod
            def missing(cls):
                return "no maze here"

    maze = Maze()
    assert await maze.potential() == 0.5
    assert Maze.unavailable_reason() == maze.unavailable_reason() == "no maze here"


async def test_the_nearest_override_counts_whatever_its_name():
    with warns("progress"):

        class Maze(Environment):
            async def progress(self):
                return 0.5

    class Renamed(Maze):
        async def potential(self):
            return 0.75

    with warns("progress"):

        class Old(Renamed):
            async def progress(self):
                return 1.0

    class Unchanged(Old):
        pass

    assert [await made().potential() for made in (Maze, Renamed, Old, Unchanged)] == [0.5, 0.75, 1.0, 1.0]


async def test_callers_of_the_old_name_get_the_new_member():
    with warns("Environment.progress is now Environment.potential"):
        assert await Environment().progress() is None
    with warns("images"):
        assert Environment().images == []
    with warns("Reward.judges is now Reward.has_stage"):
        assert Reward().judges("turn") is False


def test_a_reward_that_overrides_old_names_is_honoured():
    with warns("Judge.meet is now Judge.bind_policy"), warns("at is now"):

        class Judge(Reward):
            def meet(self, policy):
                self.policy = policy

            def at(self, progress):
                self.progress = progress

    judge = Judge()
    judge.bind_policy("the policy")
    judge.set_progress(0.5)
    assert (judge.policy, judge.progress) == ("the policy", 0.5)


def test_another_kind_of_thing_under_an_old_name_is_left_alone():
    """A tool named `progress` and a plain attribute `images` have nothing to do with the old members."""

    class Gallery(Environment):
        images = ("a.png",)

        @tool
        def progress(self) -> str:
            """Say how far the work is."""
            return "half"

    assert Gallery().images == ("a.png",)
    assert list(Gallery.tools) == ["progress"]
    assert Gallery.potential is Environment.potential


def test_a_renamed_field_of_a_dataclass_is_taken_and_read_by_its_old_name():
    @renamed_keywords(max_tokens="max_turn_tokens")
    @dataclass(frozen=True, slots=True)
    class Limits:
        max_turn_tokens: int = 1
        max_tokens = renamed_member("max_turn_tokens")

    with warns(r"max_tokens= of Limits\(\) is now max_turn_tokens="):
        limits = Limits(max_tokens=3)
    assert limits == Limits(max_turn_tokens=3) == Limits(3)
    with warns("Limits.max_tokens"):
        assert limits.max_tokens == 3


def test_both_names_of_one_thing_are_refused():
    @renamed_keywords(old="new")
    def function(new):
        return new

    with pytest.raises(TypeError, match="both old= and new="):
        function(old=1, new=2)
    with pytest.raises(ValueError, match=r"\[episode\] has both old and new"):
        renamed_keys({"old": 1, "new": 2}, {"old": "new"}, where="[episode]")


def test_old_keys_of_a_file_keep_their_place():
    with warns(r"max_tokens in \[episode\] is now max_episode_tokens"):
        table = renamed_keys({"a": 1, "max_tokens": 2, "z": 3}, {"max_tokens": "max_episode_tokens"}, where="[episode]")
    assert list(table.items()) == [("a", 1), ("max_episode_tokens", 2), ("z", 3)]


def test_old_options_of_a_command_are_replaced_with_their_values():
    given = ["--samples", "4", "--samples=5", "--seed", "1", "--", "--samples"]
    with warns("--samples of agentgym eval is now --group-size"):
        arguments = renamed_options(given, {"--samples": "--group-size"}, where="agentgym eval")
    assert arguments == ["--group-size", "4", "--group-size=5", "--seed", "1", "--", "--samples"]


def test_an_old_registered_name_leads_to_the_new_one():
    with warns("The policy 'novice' is now 'imperfect_oracle'"):
        assert current_name("novice", {"novice": "imperfect_oracle"}, what="The policy") == "imperfect_oracle"
    assert current_name("oracle", {"novice": "imperfect_oracle"}, what="The policy") == "oracle"


def test_the_old_name_of_an_optional_member_leads_to_the_subclass_that_defines_it():
    class Puzzle:
        novice = renamed_member("imperfect_oracle")

    class Sudoku(Puzzle):
        imperfect_oracle = "a player"

    adopt_renamed_members(Puzzle)
    adopt_renamed_members(Sudoku)
    with warns("Sudoku.novice is now Sudoku.imperfect_oracle"):
        assert Sudoku.novice == "a player"
    with warns("Puzzle.novice"):
        assert getattr(Puzzle, "novice", None) is None


def test_a_class_without_old_names_is_left_as_it_is():
    class Plain:
        pass

    adopt_renamed_members(Plain)
