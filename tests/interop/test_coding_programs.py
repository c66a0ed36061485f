"""Coding programs from npm, unchanged, with a scripted policy: their shell, and our tools over their MCP client."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from scripted_episodes import make_manager, say, task

from agentgym import ScriptedPolicy
from agentgym.interop.gateway.gateway import PolicyGateway
from agentgym.interop.gateway.programs import AgentProgram
from agentgym.messages import ResultStatus
from agentgym.testing import ByteRenderer, Counter, TargetReached

EXAMPLES = Path(__file__).parents[2] / "examples" / "programs"
INSTALLED = Path(os.environ.get("AGENTGYM_CODING_PROGRAMS", ""))
"""The folder node_modules/.bin of `npm install` with the packages that the files in EXAMPLES name."""
PROGRAMS = {
    "codex": ("codex", "mcp__gym__", "exec_command", {"cmd": "echo hello"}),
    "claude": ("claude_code", "mcp__gym__", "Bash", {"command": "echo hello", "description": "Say hello"}),
    "qwen": ("qwen_code", "mcp__gym__", "run_shell_command", {"command": "echo hello", "is_background": False}),
    "opencode": ("opencode", "gym_", "bash", {"command": "echo hello", "description": "Say hello"}),
    "gemini": ("gemini_cli", "mcp_gym_", "run_shell_command", {"command": "echo hello"}),
}
"""By the program's name: its file in EXAMPLES, its prefix of our tools, and its shell with arguments."""


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS)
async def test_an_unchanged_program_uses_its_shell_and_our_tools(program):
    binary = INSTALLED / program
    if not INSTALLED.name or not binary.exists():
        pytest.skip(f"AGENTGYM_CODING_PROGRAMS names no folder that has {program}")
    file, prefix, *shell = PROGRAMS[program]
    script = [say(tuple(shell)), say((f"{prefix}add", {"amount": 2})), say(f"{prefix}submit")]
    started = AgentProgram(("sh", str(EXAMPLES / f"{file}.sh"), "{task}"), {program.upper(): str(binary)})
    gateway = PolicyGateway(started, silence_s=60)
    policy = ScriptedPolicy(script, ByteRenderer())
    manager = make_manager(policy, engine=gateway, environment=Counter, reward=TargetReached())
    [trajectory] = await manager.collect([task("t0", 2)])
    assert (trajectory.error, trajectory.success) == (None, 1.0)
    in_shell, added, submitted = trajectory.turns
    assert in_shell.results[0].status is ResultStatus.BY_PROGRAM
    assert "hello" in in_shell.results[0].content
    assert [(call.name, call.arguments) for call in added.calls] == [(f"{prefix}add", {"amount": 2})]
    assert [turn.results[0].status for turn in (added, submitted)] == [ResultStatus.OK] * 2
