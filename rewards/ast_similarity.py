"""`ast_similarity`: how much syntax a program shares with a reference program, without names and constants.

Source: syntactic match of CodeBLEU, Ren et al. 2020, arXiv:2009.10297, section 3.2: shared subtrees of the syntax
trees. CodeBLEU uses recall on the reference; this reward uses F1, so that listing every construct earns little.
"""

from __future__ import annotations

import ast
import hashlib
import warnings
from collections import Counter
from collections.abc import Mapping

from agentgym import JudgeError, Reward, Trajectory
from agentgym.reward import Components

from .final_answer import final_answer

MAX_CHARS = 50_000


class AstSimilarity(Reward):
    """Outcome component `ast_similarity`, 0 to 1: similarity of the submitted Python code to `truth["reference"]`.

    Similar code may be wrong: keep the weight below that of tests. Code that cannot be parsed earns 0.

    Args:
        argument: the final tool's argument that holds the code.
    """

    weights: Mapping[str, float] = {"ast_similarity": 0.1}

    def __init__(self, argument: str = "code") -> None:
        self.argument = argument

    def outcome(self, episode: Trajectory) -> Components:
        """Judge a finished episode. Raises: JudgeError if the task's reference is missing or not Python."""
        truth = episode.task.truth
        reference = truth.get("reference") if isinstance(truth, dict) else None
        gold = subtrees(reference) if isinstance(reference, str) else None
        if not gold:
            raise JudgeError(
                f"{episode.task.id} has no Python code in truth['reference'], with which ast_similarity compares. Add "
                "it."
            )
        code = final_answer(episode, self.argument)
        submitted = subtrees(code) if code is not None else None
        return {"ast_similarity": overlap(submitted, gold) if submitted else 0.0}


def similarity(code: str, gold: str) -> float:
    """Return F1 over the subtrees of two programs, 0 to 1; 0 if either is not Python."""
    subtrees_of_code, subtrees_of_gold = subtrees(code), subtrees(gold)
    return overlap(subtrees_of_code, subtrees_of_gold) if subtrees_of_code and subtrees_of_gold else 0.0


def overlap(a: Counter[str], b: Counter[str]) -> float:
    """Return F1 of two multisets."""
    return 2.0 * (a & b).total() / (a.total() + b.total())


def subtrees(code: str) -> Counter[str] | None:
    """Return counts of the syntax tree's subtrees, as hashes of node types; None if the program cannot be parsed."""
    if len(code) > MAX_CHARS:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an invalid escape such as "\\w" in the code does not matter here
            tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    counts: Counter[str] = Counter()
    digests: dict[ast.AST, str] = {}
    stack: list[tuple[ast.AST, bool]] = [(tree, False)]
    while stack:  # children before parents; no recursion, so depth is unlimited
        node, ready = stack.pop()
        children = [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.expr_context)]
        if not ready:
            stack.append((node, True))
            stack += [(child, False) for child in children]
            continue
        text = f"{type(node).__name__}({','.join(digests[child] for child in children)})"
        digests[node] = hashlib.blake2b(text.encode(), digest_size=12).hexdigest()
        if not isinstance(node, ast.Module):
            counts[digests[node]] += 1
    return counts
