"""The checks of a backend whose sandboxes are made by `namespaces` on another host, and reached over a connection."""

from __future__ import annotations

import pytest

from agentgym.testing.backends.runs import CONTRACT

OF_THE_GUEST = ("Python",)
"""Themes about the guest alone, in whom it makes no difference from where it is asked."""
SOME_ATTACKS = {"fork_bomb", "hard_links", "signals_to_everybody", "disk_filler"}

by_day = {check.name for check in CONTRACT if check.theme not in OF_THE_GUEST}
at_night = {check.name for check in CONTRACT} - by_day | SOME_ATTACKS

each_half = pytest.mark.parametrize(
    "checks", [pytest.param(by_day, id="travels"), pytest.param(at_night, id="guest", marks=pytest.mark.thorough)]
)
"""The whole contract and some attacks: `make test` plays what the connection could break, `make test-all` the rest."""
