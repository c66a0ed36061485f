"""Old names work for one release and warn with the new name; docs/stability.md promises it."""

from __future__ import annotations

import pytest

from agentgym import Environment, Message, Outlook, SandboxUnavailable, tool
from agentgym.deprecation import (
    REMOVED_IN,
    AgentGymDeprecationWarning,
    renamed_keywords,
    renamed_options,
    warn_renamed,
)
from agentgym.environment import ContextChange
from agentgym.environment.contexts import take_context_change
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


def test_both_names_of_one_thing_are_refused():
    @renamed_keywords(old="new")
    def function(new):
        return new

    with pytest.raises(TypeError, match="both old= and new="):
        function(old=1, new=2)


def test_old_options_of_a_command_are_replaced_with_their_values():
    given = ["--samples", "4", "--samples=5", "--seed", "1", "--", "--samples"]
    with warns("--samples of agentgym eval is now --group-size"):
        arguments = renamed_options(given, {"--samples": "--group-size"}, where="agentgym eval")
    assert arguments == ["--group-size", "4", "--group-size=5", "--seed", "1", "--", "--samples"]
