"""Old names work for one release and warn with the new name; docs/stability.md promises it."""

from __future__ import annotations

import sys
import types
from dataclasses import dataclass

import pytest

from agentgym import Environment, Message, Outlook, SandboxUnavailable, Task, tool
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
from agentgym.environment import ContextChange, take_context_change
from agentgym.sandbox import Usage


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


class Base:
    """A class with old names of members."""

    progress = renamed_member("potential")
    missing = renamed_member("unavailable_reason")
    images = renamed_member("digests")

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        adopt_renamed_members(cls)

    async def potential(self):
        return None

    @classmethod
    def unavailable_reason(cls):
        return ""

    @property
    def digests(self):
        return []


async def test_a_subclass_that_overrides_old_names_is_honoured():
    with warns("Maze.progress is now Maze.potential"), warns("Maze.missing is now Maze.unavailable_reason"):

        class Maze(Base):
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

        class Maze(Base):
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
    with warns("Base.progress is now Base.potential"):
        assert await Base().progress() is None
    with warns("images"):
        assert Base().images == []


def test_another_kind_of_thing_under_an_old_name_is_left_alone():
    """A plain method `progress` and a plain attribute `images` have nothing to do with the old members."""

    class Gallery(Base):
        images = ("a.png",)

        def progress(self) -> str:
            return "half"

    assert Gallery().images == ("a.png",)
    assert Gallery().progress() == "half"
    assert Gallery.potential is Base.potential


async def test_an_environment_that_overrides_old_hooks_is_honoured():
    """`hopeless` and `turns_needed` have become `outlook`, and `private_texts` an attribute."""
    with warns(r"Maze.hopeless and turns_needed\(\) is now Maze.outlook"), warns(r"Maze.private_texts\(\)"):

        class Maze(Environment):
            async def hopeless(self):
                return "walled in"

            async def turns_needed(self):
                return 3

            def private_texts(self):
                return ["the exit is west"]

    class Renamed(Maze):
        async def outlook(self):
            return Outlook(turns_needed=5)

    with warns("Old.hopeless"):

        class Old(Renamed):
            async def hopeless(self):
                return "flooded"

    outlooks = [await made().outlook() for made in (Maze, Renamed, Old)]
    assert outlooks == [Outlook("walled in", 3), Outlook(None, 5), Outlook("flooded", 5)]
    assert Maze().private_texts == ["the exit is west"]
    with warns(r"Walked.usage\(\)"):

        class Walked(Environment):
            steps = 3

            async def usage(self):
                return Usage(cpu_s=self.steps)

    assert await Walked().sandboxes.usage() == Usage(cpu_s=3)


async def test_old_methods_of_an_environment_still_do_what_they_did():
    class Shop(Environment):
        @tool
        def buy(self) -> str:
            """Buy it."""
            return "bought"

        @tool
        def sell(self) -> str:
            """Sell it."""
            return "sold"

    shop = Shop()
    with warns("Environment.remove_tools"):
        shop.remove_tools("buy")
    assert (list(shop.tools), list(Shop.tools)) == (["sell"], ["buy", "sell"])
    with warns("remove_tools"), pytest.raises(KeyError, match=r"Shop has no tools \['buy'\]"):
        shop.remove_tools("buy")
    with warns("Environment.begin_context is now HasContexts.begin_context"):
        shop.begin_context([Message("user", "Next.")], nested=True)
    assert take_context_change(shop) == ContextChange((Message("user", "Next."),), nested=True)
    with warns("Environment.end_context"):
        shop.end_context({"a": "b"})
    assert (take_context_change(shop), take_context_change(shop)) == (ContextChange(results={"a": "b"}), None)
    with warns("hopeless"), warns("turns_needed"):
        assert (await shop.hopeless(), await shop.turns_needed()) == (None, None)
    with warns("usage"), warns("image_digests"), warns("unwrapped"):
        assert (await shop.usage(), shop.image_digests, shop.unwrapped) == (Usage(), [], shop)
    with warns("Environment.empty_sandbox"), pytest.raises(SandboxUnavailable):
        await shop.empty_sandbox()


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
