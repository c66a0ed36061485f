"""The measured bias of every registered estimator and of wrapped ones: `python tests/credit/bias_table.py`.

Distance of E[(1/N) sum A grad log pi] from the true gradient in units of its length, for N = 2, 3 and 4, by exact
sums over every possible group of small decision problems (`sibling` and `tree`: over every tree with so many
first turns and two second turns each). Critics, gold answers, potentials and shares are wrong on purpose, hindsight
and continuations are exact. * marks another objective than the sum of rewards: what the wrapper makes of it. The
distance is still to the sum; test_unbiased_with_evidence.py has it to its own. Half a minute on a quiet core.
"""

from __future__ import annotations

import warnings

import numpy as np
from mdp_evidence import informed
from mdp_signals import MISJUDGED
from mdp_trees import estimated_gradient
from small_mdps import Problem
from test_bias_of_published import with_tokens

from agentgym.credit import Estimator, estimator
from agentgym.registry import names

SIZES = (2, 3, 4)
WRAPPED = [
    "return_to_go | gated", "return_to_go | calibrated(weights={'gain': 2.0})", "return_to_go | calibrated(minimum=1)",
    "return_to_go | masked(over_turn=True)", "return_to_go | off_policy", "return_to_go | entropy_weighted",
    "return_to_go | task_normalised",
]  # fmt: skip


def problems() -> dict[str, Problem]:
    """The four problems with every signal. Long attempts ran out of turns; the policy grows surer from turn to turn."""
    return {
        name: with_tokens(informed(problem)).with_signals(
            action_keys=lambda p: [action for _, action in p.steps],
            stop_reasons=lambda p: "max_turns" if len(p.steps) == 3 else "answered",
            log_ratios=lambda p: [[0.0]] * len(p.steps),
            entropies=lambda p: [1.0 / (k + 1) for k in range(len(p.steps))],
        )
        for name, problem in MISJUDGED.items()
    }


def errors(chosen: Estimator, problem: Problem) -> list[float]:
    """One figure per group size; two for the largest problem, whose groups of four are many."""
    true = problem.true_gradient()
    found = []
    for size in SIZES[: 2 if len(problem.paths) > 12 else 3]:
        if "branches" in chosen.requires:
            got = estimated_gradient(problem, chosen, (size, 2) if len(problem.paths) < 9 and size < 4 else (size,))
        else:
            got = problem.estimated_gradient(chosen, size)
        found.append(float(np.linalg.norm(got - true) / np.linalg.norm(true)))
    return found


def main() -> None:
    """Print the table."""
    given = problems()
    print(f"{'':50}{'declared':11}" + "".join(f"{name:22}" for name in given))
    for name in [*names("estimators"), *WRAPPED]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            chosen = estimator(name)
        cells = [
            "  ".join(f"{0.0 if x < 1e-9 else x:.3f}" for x in errors(chosen, problem)) for problem in given.values()
        ]
        star = "*" if "gated" in name or "calibrated" in name else ""
        print(f"{name + star:50}{chosen.bias:11}" + "".join(f"{cell:22}" for cell in cells), flush=True)


if __name__ == "__main__":
    main()
