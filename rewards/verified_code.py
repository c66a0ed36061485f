"""`verified_code`: the default reward of `agentgym/code-verified-v1`."""

from __future__ import annotations

from agentgym import Combined

from .hidden_tests import HiddenTests
from .self_tests import SelfTests


class VerifiedCode(Combined):
    """The hidden tests (`success`, 1.0), with small rewards for the agent's own tests (at most 0.4)."""

    def __init__(self) -> None:
        super().__init__(HiddenTests(), SelfTests())
