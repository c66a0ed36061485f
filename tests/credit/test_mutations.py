"""A test suite is worth what it catches: errors of one character in estimators, each of which some test must notice."""

from __future__ import annotations

from mutants import Mutant, mutant_tests

HAND, PUBLISHED = "credit/test_estimators_by_hand.py", "credit/test_published_by_hand.py"
EVIDENCE, BRANCHES = "credit/test_evidence_by_hand.py", "credit/test_branches.py"
REPLAYS, WRAPPERS = "credit/test_counterfactual.py", "credit/test_wrappers.py"
OFF_POLICY = "credit/test_off_policy.py"

MUTANTS = [
    Mutant("credit/arithmetic.py", "else (0.0, 0)", "else (0.0, 1)", HAND),
    Mutant("credit/arithmetic.py", "count = mask.sum(axis=0)\n", "count = mask.sum(axis=1)\n", HAND),
    Mutant(
        "credit/arithmetic.py",
        "where(k == group.turns - 1, outcomes",
        "where(k == group.turns - 2, outcomes",
        HAND,
    ),
    Mutant("credit/arithmetic.py", "outcomes, gamma * following", "outcomes, gamma + following", HAND),
    Mutant("credit/estimators/grpo.py", "ddof: Ddof = 1", "ddof: Ddof = 0", HAND),
    Mutant("credit/arithmetic.py", "reached.sum(axis=0) == 1", "reached.sum(axis=0) == 2", HAND),
    Mutant(
        "methods/credit/mt_grpo.py",
        "return arithmetic.centred(turn_returns, baseline)",
        "return arithmetic.centred(-turn_returns, baseline)",
        HAND,
    ),
    Mutant(
        "methods/credit/opo.py", "lengths.sum() - leave_out * lengths", "lengths.sum() + leave_out * lengths", PUBLISHED
    ),
    Mutant("credit/arithmetic.py", "gamma * following - values", "gamma * following + values", PUBLISHED),
    Mutant("methods/credit/mt_grpo_two_segment.py", "columns[None] <= end", "columns[None] >= end", PUBLISHED),
    Mutant("methods/credit/shaping.py", "(turn_returns - before", "(turn_returns + before", EVIDENCE),
    Mutant(
        "methods/credit/igpo.py", "discounted_sums(advantages, gamma)", "discounted_sums(advantages, 1.0)", EVIDENCE
    ),
    Mutant("credit/arithmetic.py", "+ decay * following", "- decay * following", EVIDENCE),
    Mutant("methods/credit/trace.py", "(columns + window >= ends)", "(columns - window >= ends)", EVIDENCE),
    Mutant("methods/credit/spa.py", "(outcomes - before)", "(outcomes + before)", EVIDENCE),
    Mutant("methods/credit/hindsight.py", "z, 1 - band, 1 + band", "z, 1 - band, 1 - band", EVIDENCE),
    Mutant("methods/credit/hca.py", "-np.expm1(-ratio)", "+np.expm1(-ratio)", EVIDENCE),
    Mutant(
        "methods/credit/vine.py", "return turn_returns - forward_fill", "return turn_returns + forward_fill", BRANCHES
    ),
    Mutant(
        "methods/credit/sibling.py", "np.maximum(tree.siblings - 1, 1)", "np.maximum(tree.siblings - 0, 1)", BRANCHES
    ),
    Mutant("methods/credit/branches.py", "total[level] / count[level]", "total[level] * count[level]", BRANCHES),
    Mutant("methods/credit/counterfactual.py", "math.comb(turns - 1, size)", "math.comb(turns - 0, size)", REPLAYS),
    Mutant("methods/credit/wrappers/gated.py", "(reached >= threshold)", "(reached > threshold)", WRAPPERS),
    Mutant("methods/credit/wrappers/masked.py", "valid=~is_hidden", "valid=is_hidden", WRAPPERS),
    Mutant("credit/wrappers/off_policy.py", "where(ratios <= high", "where(ratios >= high", OFF_POLICY),
    Mutant(
        "methods/credit/wrappers/entropy_weighted.py",
        "np.abs(advantages) / limit",
        "np.abs(advantages) * limit",
        WRAPPERS,
    ),
]

mutated, test_the_tests_pass_on_the_copy, test_an_error_of_one_character_is_caught = mutant_tests(MUTANTS, always=1)
