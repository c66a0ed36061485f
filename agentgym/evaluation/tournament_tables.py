"""The tables of a comparison, which the terminal and the page show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from agentgym.evaluation.text import format_usage
from agentgym.text import hundredfold, percent, points


@dataclass(frozen=True, slots=True)
class Drawn:
    """An estimate that the page draws with its interval."""

    estimate: Mapping[str, Any]
    least: float = 0.0
    """The left end of the drawing. The right end is 1."""
    words: str = ""
    """The text before the drawing, which the terminal shows alone. It omits a column of drawings without text."""


_VERDICTS = {
    "better": "is better than",
    "worse": "is worse than",
    "equal": "is not distinguishable from",
    "more seeds": "needs more seeds to be compared with",
}


class ComparisonTable(NamedTuple):
    """A table with the names of its columns, of which the first names the row."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str | Drawn]]


def tables(result: Mapping[str, Any]) -> list[ComparisonTable]:
    """Return the tables of a result of `tournament` or `over_seeds`."""
    return _seeds_tables(result) if "thresholds" in result else _tournament_tables(result)


def _tournament_tables(result: Mapping[str, Any]) -> list[ComparisonTable]:
    agents = [
        [
            name,
            rate(arm["success"]),
            Drawn(arm["success"]),
            interval(arm["success"]),
            str(arm["failed"]),
            f"{arm['mean_turns']:.1f}",
            ", ".join(format_usage(arm["usage"])[:3]),
        ]
        for name, arm in result["arms"].items()
    ]
    pairs = [
        [
            f"{pair['first']} -> {pair['second']}",
            *_gain(pair["gain"]),
            *(str(pair[name]) for name in ("better", "worse", "same")),
            *(f"{pair[name]:.2g}" for name in ("p", "p_holm")),
            "not chance" if pair["significant"] else "could be chance",
        ]
        for pair in result["pairs"]
    ]
    of_agents = ["Agent", "Success", "0 % to 100 %", "95 % interval", "Failed", "Turns", "Took"]
    of_pairs = ["Pair", "Gain", "-100 to 100", "95 % interval", "Better", "Worse", "Same", "p", "p, Holm", ""]
    compared = [ComparisonTable("Success", of_agents, agents), ComparisonTable("Pairs", of_pairs, pairs)]
    for key, title in (("pass_at", "pass@k"), ("pass_hat", "pass^k"), ("within_turns", "within k turns")):
        curves = {name: arm[key] for name, arm in result["arms"].items()}
        ks = sorted({k for curve in curves.values() for k in curve}, key=float)
        if len(ks) > (key != "within_turns"):
            rows = [[name, *(_point(curve[k]) if k in curve else "" for k in ks)] for name, curve in curves.items()]
            compared.append(ComparisonTable(title, [title, *ks], rows))
    return compared


def _seeds_tables(result: Mapping[str, Any]) -> list[ComparisonTable]:
    agents, thresholds = result["arms"].items(), [f"{threshold:g}" for threshold in result["thresholds"][::4]]
    decisions = [[pair["first"], _VERDICTS[pair["verdict"]], pair["second"]] for pair in result["adastop"]]
    compared = [
        ComparisonTable(
            "Over seeds",
            ["Agent", "Seeds", "Mean", "Interquartile mean", "95 % interval"],
            [
                [name, str(arm["seeds"]), percent(arm["mean"], 1), rate(arm["iqm"]), interval(arm["iqm"])]
                for name, arm in agents
            ],
        ),
        ComparisonTable(
            "Chance that the second improves on the first",
            ["Pair", "Chance that it improves", "95 % interval"],
            [
                [f"{pair['first']} -> {pair['second']}", rate(pair["probability"]), interval(pair["probability"])]
                for pair in result["pairs"]
            ],
        ),
        ComparisonTable(
            "Share of seeds and tasks that score above",
            ["Scores above", *thresholds],
            [[name, *(percent(share) for share in arm["profile"][::4])] for name, arm in agents],
        ),
        ComparisonTable("AdaStop", ["AdaStop", "", ""], decisions),
    ]
    return [table for table in compared if table.rows]


def rate(estimate: Mapping[str, Any]) -> str:
    """Return an estimated share in percent."""
    return percent(estimate["value"], 1) if estimate["n"] else "no data"


def interval(estimate: Mapping[str, Any]) -> str:
    """Return the interval of an estimated share in hundredths; "" without data."""
    return f"{hundredfold(estimate['low'], 1)} to {hundredfold(estimate['high'], 1)}" if estimate["n"] else ""


def _gain(estimate: Mapping[str, Any]) -> list[str | Drawn]:
    """Return a difference, its drawing and its interval; "no data" if the agents have no judged task in common."""
    if not estimate["n"]:
        return ["no data", Drawn(estimate, -1.0), ""]
    value, low, high = (points(estimate[name], 1) for name in ("value", "low", "high"))
    return [value, Drawn(estimate, -1.0), f"{low} to {high}"]


def _point(estimate: Mapping[str, Any]) -> Drawn:
    return Drawn(estimate, words=f"{rate(estimate)} [{interval(estimate)}]")
