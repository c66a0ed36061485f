"""`patch_similarity`: how similar a proposed patch is to the one that solved the issue, without running anything.

Source: SWE-RL, Wei et al. 2025, arXiv:2502.18449, section 2: -1 if the answer is not a patch, else the similarity of
the changes by Python's sequence matcher, 0 to 1, averaged over the files that either patch touches.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import SequenceMatcher

from agentgym import JudgeError, Reward, Trajectory
from agentgym.reward import Components, read_submission

from .final_answer import final_answer, final_call

MAX_CHARS, MAX_LETTERS = 200_000, 3_000
_FENCE = re.compile(r"\A\s*```(?:diff|patch)?\n(.*?)\n?```\s*\Z", re.DOTALL)


class PatchSimilarity(Reward):
    """Outcome component `patch_similarity`, -1 to 1: similarity of the final unified diff to the gold diff.

    The gold diff is `truth["patch"]` or, as in repository tasks, `truth["gold"]`. The agent's diff is the final call's
    argument or, if the environment makes the diff, the call's result.

    Args:
        argument: the final tool's argument that holds the patch.
    """

    weights: Mapping[str, float] = {"patch_similarity": 1.0}

    def __init__(self, argument: str = "patch") -> None:
        self.argument = argument

    def outcome(self, episode: Trajectory) -> Components:
        """Judge a finished episode. Raises: JudgeError if the task has no patch in its truth."""
        truth = episode.task.truth if isinstance(episode.task.truth, dict) else {}
        gold = changes(str(truth.get("patch") or truth.get("gold") or ""))
        if not gold:
            raise JudgeError(
                f"{episode.task.id} has no unified diff in truth['patch'] or truth['gold'], with which "
                "patch_similarity compares."
            )
        submitted = read_submission(lambda: changes(self._submission(episode) or ""))
        return {"patch_similarity": similarity(submitted, gold) if submitted else -1.0}

    def _submission(self, episode: Trajectory) -> str | None:
        final = final_call(episode)
        if final is not None and self.argument not in final[0].arguments:
            return str(final[1].content)
        return final_answer(episode, self.argument)


def similarity(submitted: Mapping[str, str], gold: Mapping[str, str]) -> float:
    """Return the mean similarity of the changes over all files, 0 to 1; a file that only one patch touches counts 0."""
    files = submitted.keys() | gold.keys()
    return sum(alike(submitted.get(file, ""), gold.get(file, "")) for file in files) / len(files)


def alike(first: str, second: str) -> float:
    """Return the ratio of difflib's SequenceMatcher, 0 to 1: by characters, for long texts by lines."""
    if not first or not second:
        return 0.0
    if max(len(first), len(second)) > MAX_LETTERS:
        return SequenceMatcher(None, first.splitlines(), second.splitlines(), autojunk=False).ratio()
    return SequenceMatcher(None, first, second, autojunk=False).ratio()


def changes(patch: str) -> dict[str, str]:
    """Return the added and removed lines of a unified diff by file, with their signs; empty for any other text."""
    if len(patch) > MAX_CHARS:
        return {}
    fenced = _FENCE.match(patch)
    changed_lines: dict[str, list[str]] = {}
    file: str | None = None
    inside = False  # inside a hunk, where `---` would be a removed line
    old = new = 0
    lines = (fenced[1] if fenced else patch).splitlines()
    for line in lines:
        if inside and (old > 0 or new > 0):
            sign = line[:1]
            old, new = old - (sign in (" ", "-", "")), new - (sign in (" ", "+", ""))
            if sign in ("+", "-") and file is not None:
                changed_lines.setdefault(file, []).append(line)
            continue
        inside = False
        if line.startswith("--- ") or (line.startswith("+++ ") and _path(line) != "/dev/null"):
            file = _path(line)
        elif hunk := re.match(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@", line):
            if file is None:
                return {}
            old, new, inside = int(hunk[1] or 1), int(hunk[2] or 1), True
    return {path: "\n".join(changed) for path, changed in changed_lines.items()}


def _path(line: str) -> str:
    path = line[4:].split("\t")[0].strip()
    return path if path == "/dev/null" else re.sub(r"^[ab]/", "", path)
