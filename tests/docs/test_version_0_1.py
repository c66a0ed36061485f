"""What the README, the docs and the examples of version 0.1 showed still runs, and warns.

The files in `version_0_1` are what a user of that version wrote. They stay as they are until `REMOVED_IN`.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).with_name("version_0_1")
OLD_NAMES = {
    "estimator.py": ["agentgym.credit.declare", "Group.played"],
    "judges_and_players.py": [
        "EpisodeView",
        "TurnView",
        "Moment",
        "GymnasiumWorld",
        "TextWorld",
        "TaskSet.novice",
        "one_line_bugs.novice",
        "store.novice",
        "wiki.novice",
        "NumberGuess.novice",
        "Terse.judges",
    ],
    "recipe.py": [
        "max_tokens in [episode]",
        "turn_tokens in [episode]",
        "novice in [warm_start]",
        "samples in [evaluate]",
    ],
    "safe.py": [
        "agentgym.episode.manager.EpisodeManager",
        "Safe.progress",
        "run= of EpisodeManager",
        "thing= of register",
    ],
    "two_strategies.py": [
        "agentgym.episode.budgets.Budgets",
        "budgets= of evaluate",
        "Evaluation.summary",
        "Evaluation.compared_to",
    ],
}


def test_every_file_is_tried():
    assert {path.name for path in FOLDER.glob("*.py")} == set(OLD_NAMES)


@pytest.mark.parametrize("name", OLD_NAMES)
def test_a_script_of_version_0_1_runs_and_each_old_name_warns_once_it_is_used(name, tmp_path):
    script = [sys.executable, "-W", "error", "-W", "always::DeprecationWarning", FOLDER / name]
    completed = subprocess.run(script, cwd=tmp_path, capture_output=True, text=True)
    assert completed.returncode == 0, completed.stderr
    assert completed.stdout.strip()
    warnings = [line for line in completed.stderr.splitlines() if "AgentGymDeprecationWarning" in line]
    for old_name in OLD_NAMES[name]:
        assert any(f"{old_name}" in line.partition(" is now ")[0] for line in warnings), f"{old_name}: {warnings}"
