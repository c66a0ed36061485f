"""What errors say when their message quotes what a sandbox wrote."""

from __future__ import annotations

import pytest

from agentgym.errors import JudgeError, SandboxDied, SandboxError, SandboxExhausted, ToolError
from agentgym.sandbox.host.replies import file_error


@pytest.mark.parametrize("kind", [SandboxError, SandboxDied, SandboxExhausted, JudgeError])
def test_the_message_of_an_error_that_quotes_a_sandbox_cannot_steer_a_terminal(kind):
    assert str(kind("It said \x1b]0;owned\x07 and\nended.")) == "It said \u241b]0;owned\u2407 and\nended."


def test_what_a_guest_says_of_a_file_cannot_either():
    assert str(file_error({"errno": 2, "text": "\x1b[2J"}, "a")) == "[Errno 2] \u241b[2J: 'a'"


def test_what_an_agent_reads_is_left_as_it_is():
    assert str(ToolError("\x1b[0m")) == "\x1b[0m"
