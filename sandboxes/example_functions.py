"""Default functions of `agentgym/function-turns-v1`: lamps to switch on and off."""

from __future__ import annotations

from typing import Any


class Lamps:
    """Lamps by name. The public attributes are the state that is compared."""

    def __init__(self) -> None:
        self.is_on: dict[str, bool] = {}

    def _load_scenario(self, scenario: dict[str, Any], long_context: bool = False) -> None:
        """Set the initial state that a task gives: `{"is_on": {"hall": true}}`."""
        self.is_on = dict(scenario.get("is_on", {"hall": True, "kitchen": False}))

    def list_lamps(self) -> dict[str, Any]:
        """Return the lamps, and whether they are on."""
        return {"lamps": self.is_on}

    def switch(self, lamp: str, on: bool) -> dict[str, Any]:
        """Switch a lamp on or off."""
        if lamp not in self.is_on:
            return {"error": f"There is no lamp {lamp}."}
        self.is_on[lamp] = on
        return {"lamp": lamp, "on": on}
