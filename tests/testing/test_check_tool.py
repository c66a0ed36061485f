"""check_tool passes a sound tool and names the fault of every broken one."""

from __future__ import annotations

from breaches import breach

from agentgym import Tool
from agentgym.testing import check_tool


def test_a_sound_tool_passes():
    def look(where: str, times: int = 1) -> str:
        """Look somewhere."""
        return where * times

    check_tool(Tool.from_function(look))


def test_a_tool_with_a_name_that_models_cannot_write_is_caught():
    def look_at_the_moon_and_the_stars_and_everything_else_that_is_in_the_night_sky() -> str:
        """Look."""
        return ""

    with breach("cannot be called by models"):
        check_tool(Tool.from_function(look_at_the_moon_and_the_stars_and_everything_else_that_is_in_the_night_sky))
