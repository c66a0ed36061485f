"""`verified_code`: what `agentgym/code-verified-v1` is judged by unless a recipe says otherwise."""

from __future__ import annotations

from agentgym import Combined

from .hidden_tests import HiddenTests
from .self_tests import SelfTests


class VerifiedCode(Combined):
    """The hidden tests decide (`success`, 1.0); the agent's own tests help (0.4 at most)."""

    def __init__(self) -> None:
        super().__init__(HiddenTests(), SelfTests())
