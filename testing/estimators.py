"""check_estimator: advantages have the right shape, treat trajectories alike and ignore failed ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np

from agentgym import MissingSignalError
from agentgym.credit import Array, Estimator, Group, estimator

from .exact.bias import bias_of
from .findings import Findings, short

Estimate = Callable[[Group], list[Array]]
Arrays = dict[str, Any]
GROUPS = 40
CLOSE = 1e-9
MAX_IN_EXACT_GROUPS = 4
RANK_DEVIATIONS = ("rank_deviations", "rank_velocity_deviations", "rank_acceleration_deviations")


def check_estimator(chosen: str | Estimate, *, seed: int = 0, **options: Any) -> None:
    """Check an estimator on random groups that carry every signal, with unequal lengths and failures.

    Advantages have the right shape and are finite, deterministic and equivariant to the order of trajectories; the
    input is not changed; a failed trajectory gets 0 and changes no other; a group of one gets 0, never its raw reward;
    a group of equals gets 0; the outcome makes a difference. The declarations of an Estimator are checked too.
    `unbiased` is checked by exact sums over every possible group of four small decision problems, except for an
    estimator that requires a signal which these lack, or whose wrapper replaced the rewards (`same_objective`).

    Args:
        chosen: a registered name, or a callable that maps a Group to one array per trajectory.
        seed: the seed of the groups. options: the estimator's options, for a registered name.
    Raises: ConformanceError with every finding; UnknownNameError; CreditError for a wrong option.
    """
    estimate = estimator(chosen, **options) if isinstance(chosen, str) else chosen
    name = chosen if isinstance(chosen, str) else getattr(chosen, "name", getattr(chosen, "__name__", "estimator"))
    findings = Findings(f"estimator {name!r}")
    compares, zero_if_equal, judges = True, True, True
    if isinstance(estimate, Estimator):
        compares = estimate.minimum_group > 1 or estimate.scope == "batch"
        zero_if_equal = compares and estimate.zero_if_equal
        judges = "action_values" not in estimate.requires  # action values already contain the outcome
        if not (estimate.function.__doc__ or "").strip():
            findings.add("Its function has no docstring: say the formula, and what degenerate groups give.")
    rng = np.random.default_rng(seed)
    counts = False
    for number in range(GROUPS):
        arrays = random_signals(rng, size=int(rng.integers(2, 7)))
        with findings.no_exception(f"Random group {number} of {len(arrays['outcomes'])} trajectories"):
            counts |= _check_group(estimate, arrays, rng, findings)
    if judges and not counts:
        findings.add("The outcome makes no difference to any advantage: turn rewards alone can teach to stop trying.")
    if compares:
        with findings.no_exception("A group of one"):
            single = random_signals(rng, size=1)
            alone = estimate(Group.from_arrays(**{**single, "outcomes": _raised(single["outcomes"])}))
            if np.any(alone[0] != 0):
                findings.add(f"A group of one gets {short(alone[0])}: with nobody to compare with it is 0.")
    if zero_if_equal:
        with findings.no_exception("A group of equals"):
            single_group = random_signals(rng, size=1)
            same = estimate(Group.from_arrays(**_rows(single_group, lambda rows: rows * 3)))
            if any(np.any(advantages != 0) for advantages in same):
                findings.add(f"Three equal trajectories get {short(same)}: without a difference it is exactly 0.")
    if isinstance(estimate, Estimator):
        _check_bias(estimate, findings)
    findings.conclude()


def _check_bias(estimate: Estimator, findings: Findings) -> None:
    """Compute the bias of an estimator declared unbiased, for the two smallest group sizes that it compares."""
    fewest = max(estimate.minimum_group, 2)
    if estimate.bias != "unbiased" or not estimate.same_objective or fewest > MAX_IN_EXACT_GROUPS:
        return
    with findings.no_exception("The exact sum over every group of a small problem"):
        try:
            measured = bias_of(estimate, (fewest, fewest + 1))
        except MissingSignalError:
            return  # the estimator needs a signal that only a real run has
        wrong = [f"{row.error:.2g} on {row.problem} with groups of {row.size}" for row in measured if row.error]
        if wrong:
            findings.add(
                "It declares `unbiased`, and the mean of (1/N) sum A grad log pi is not the gradient. In units "
                f"of its length it is off by {', '.join(wrong)}. Use only the other trajectories, or what was known "
                "before a turn, as its baseline; or declare another class."
            )


def _check_group(estimate: Estimate, arrays: Arrays, rng: np.random.Generator, findings: Findings) -> bool:
    """Check one group. Returns: whether a different outcome changed an advantage."""
    group, size = Group.from_arrays(**arrays), len(arrays["outcomes"])
    frozen = _bytes(group)
    advantages = estimate(group)
    if not _has_shape(advantages, group, findings):
        return False
    if not getattr(estimate, "by_turn", True) and any(np.ptp(of_turns) > CLOSE for of_turns in advantages):
        findings.add(f"It declares by_turn=False, and turns of one trajectory differ: {short(advantages)}.")
    if _bytes(group) != frozen:
        findings.add("It changes the group it is given.")
    if not _same(estimate(group), advantages, 0.0):
        findings.add("Asked twice about the same group, it gives different advantages.")
    order = rng.permutation(size)
    shuffled = estimate(Group.from_arrays(**_rows(arrays, lambda rows: [rows[i] for i in order])))
    if not _same(shuffled, [advantages[i] for i in order], CLOSE):
        findings.add("The order of the trajectories changes their advantages.")
    position = int(rng.integers(size + 1))
    last = [*range(position), size, *range(position, size)]  # inserts the failed trajectory at `position`
    broken = _rows(_joined(arrays, random_signals(rng, size=1)), lambda rows: [rows[i] for i in last])
    broken["valid"] = [i != position for i in range(size + 1)]
    broken["outcomes"][position] = None
    with_failure = estimate(Group.from_arrays(**broken))
    if np.any(with_failure[position] != 0):
        findings.add(f"A failed trajectory gets {short(with_failure[position])}: it is not trained on, so it is 0.")
    if not _same(with_failure[:position] + with_failure[position + 1 :], advantages, CLOSE):
        findings.add("A failed trajectory changes the advantages of the others.")
    raised = {field: _raised(arrays[field]) for field in ("outcomes", "outcome_components")}
    other = {**arrays, **raised}
    return not _same(estimate(Group.from_arrays(**other)), advantages, CLOSE)


def _has_shape(advantages: Any, group: Group, findings: Findings) -> bool:
    if not isinstance(advantages, list) or len(advantages) != group.size:
        findings.add(f"It returned {short(advantages)}: expected a list of {group.size} arrays, one per trajectory.")
        return False
    for array, turns in zip(advantages, group.turns, strict=True):
        if not isinstance(array, np.ndarray) or array.dtype != np.float64 or array.shape != (turns,):
            findings.add(f"A trajectory of {turns} turns got {short(repr(array))}: expected a float64 array [{turns}].")
            return False
        if not np.isfinite(array).all():
            findings.add(f"Finite signals gave {short(array)}.")
            return False
    return True


def random_signals(rng: np.random.Generator, size: int) -> Arrays:
    """Return every signal of a random group, for Group.from_arrays.

    The group has graded outcomes, sparse turn rewards, one to five turns per trajectory, shared states, a tree of
    turns, and random outputs of critics, replays and policies.
    """
    turns = rng.integers(1, 6, size)

    def some(low: float, high: float, *, more: int = 0) -> list[list[float]]:
        return [[float(x) for x in rng.uniform(low, high, k + more)] for k in turns]

    def sparse() -> list[list[float | None]]:
        return [[None if rng.random() < 0.3 else float(rng.normal()) for _ in range(k)] for k in turns]

    def lists(*, more: int = 0) -> list[list[list[float]]]:
        return [[[float(x) for x in rng.normal(size=3)] for _ in range(k + more)] for k in turns]

    def subsets(k: int) -> dict[frozenset[int], float]:
        return {frozenset(i for i in range(k) if n >> i & 1): float(rng.random()) for n in range(2**k)}

    paths = [[str(rng.integers(2)) for _ in range(k)] for k in turns]
    signals: Arrays = {
        "outcomes": [float(x) for x in rng.integers(0, 5, size) / 4],
        "turn_rewards": sparse(),
        "components": {"found": sparse(), "tidy": sparse()},
        "outcome_components": {n: [float(x) for x in rng.random(size)] for n in ("success", "style")},
        "truncated": [bool(x) for x in rng.random(size) < 0.2],
        "stop_reasons": [("answered", "max_turns", "max_tokens", "environment")[i % 4] for i in turns],
        "tool_turn": [[bool(x) for x in rng.random(k) < 0.7] for k in turns],
        "state_keys": [[f"s{rng.integers(4)}" for _ in range(k)] for k in turns],
        "action_keys": [[f"a{rng.integers(3)}" for _ in range(k)] for k in turns],
        "branches": [["/".join(path[: k + 1]) for k in range(len(path))] for path in paths],
        "parents": [None] * size,
        "policies": [[f"p{rng.integers(2)}" for _ in range(k)] for k in turns],
        "values": some(-2, 2, more=1),
        "action_values": some(-2, 2),
        "token_values": lists(),
        "potentials": some(0, 1),
        "gold_logprobs": some(-3, 0, more=1),
        "contributions": some(-1, 1),
        "hindsight": some(-1, 1),
        "counterfactuals": [subsets(int(k)) for k in turns],
        "continuations": lists(more=1),
        "lengths": [[int(x) for x in rng.integers(1, 99, k)] for k in turns],
        "entropies": some(0, 2),
        "score_norms": some(0, 9),
        "versions": [[int(x) for x in rng.integers(0, 4, k)] for k in turns],
        "log_ratios": lists(),
    }

    token_rng = np.random.default_rng(sum(map(sum, signals["lengths"])))  # separate, to keep the other signals the same

    def of_tokens(low: float, high: float) -> list[list[list[float]]]:
        return [[token_rng.uniform(low, high, count).tolist() for count in row] for row in signals["lengths"]]

    return signals | {
        "token_entropies": of_tokens(0, 2),
        "span_values": of_tokens(-1, 1),
        "flow_deviations": of_tokens(0, 4),
        **{name: token_rng.uniform(-5, 5, size).tolist() for name in RANK_DEVIATIONS},
        "rank_scales": token_rng.uniform(0, 1, size).tolist(),
        "token_certainties": of_tokens(0, 9),
    }


def _rows(arrays: Arrays, change: Callable[[Any], Any]) -> Arrays:
    """Apply `change` to the rows of every signal, including named parts."""
    return {f: _rows(rows, change) if isinstance(rows, dict) else change(rows) for f, rows in arrays.items()}


def _raised(outcomes: Any) -> Any:
    """Add 1 to the first trajectory's outcome, in every named part."""
    if isinstance(outcomes, dict):
        return {name: _raised(part) for name, part in outcomes.items()}
    return [outcomes[0] + 1.0, *outcomes[1:]]


def _joined(arrays: Arrays, more: Arrays) -> Arrays:
    """Concatenate the rows of both groups."""
    return {f: _joined(rows, more[f]) if isinstance(rows, dict) else rows + more[f] for f, rows in arrays.items()}


def _same(left: list[Array], right: list[Array], tolerance: float) -> bool:
    return all(np.allclose(a, b, rtol=tolerance, atol=tolerance) for a, b in zip(left, right, strict=True))


def _bytes(group: Group) -> list[Any]:
    arrays = (getattr(group, field.name) for field in fields(group))
    return [array.tobytes() if isinstance(array, np.ndarray) else repr(array) for array in arrays]
