"""Comparisons as tables for the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from agentgym.evaluation.text import format_usage
from agentgym.text import format_count, hundredfold, percent, points, visible


def tournament_tables(result: Mapping[str, Any]) -> list[RenderableType]:
    """Return tables for the result of evaluation.tournament.tournament."""
    head = f"{result['tasks']} {result['split']} tasks of {result['task_set']}, manifest {result['manifest']}"
    head += f", tagged {result['tag']}" if result["tag"] else ""
    head += f", solved and {result['also']}" if result["also"] else ""
    head += (
        f", held-out tasks used {format_count(result['held_out_uses'])} before"
        if result["held_out_uses"] is not None
        else ""
    )
    arms = _table("Agent", "Success", "95 % interval", "Failed", "Turns", "Took")
    for name, arm in result["arms"].items():
        usage = ", ".join(format_usage(arm["usage"])[:3])
        arms.add_row(
            Text(visible(name)),
            _rate(arm["success"]),
            _range(arm["success"]),
            str(arm["failed"]),
            f"{arm['mean_turns']:.1f}",
            usage,
        )
    pairs = _table("Pair", "Gain", "95 % interval", "Better", "Worse", "Same", "p", "p, Holm", "")
    for pair in result["pairs"]:
        conclusion = "not chance" if pair["significant"] else "could be chance"
        gain = pair["gain"]
        pairs.add_row(
            Text(visible(f"{pair['first']} -> {pair['second']}")),
            points(gain["value"], 1),
            f"{points(gain['low'], 1)} to {points(gain['high'], 1)}",
            str(pair["better"]),
            str(pair["worse"]),
            str(pair["same"]),
            f"{pair['p']:.2g}",
            f"{pair['p_holm']:.2g}",
            conclusion,
        )
    tables: list[RenderableType] = [Text(head), Text(), arms, Text(), pairs]
    for key, name in (("pass_at", "pass@k"), ("pass_hat", "pass^k"), ("within_turns", "within k turns")):
        if any(len(arm[key]) > (key != "within_turns") for arm in result["arms"].values()):
            tables += [Text(), _curves(result["arms"], key, name)]
    return tables


def seeds_tables(result: Mapping[str, Any]) -> list[RenderableType]:
    """Return tables for the result of evaluation.tournament.over_seeds."""
    arms = _table("Agent", "Seeds", "Mean", "IQM", "95 % interval")
    for name, arm in result["arms"].items():
        arms.add_row(
            Text(visible(name)), str(arm["seeds"]), percent(arm["mean"], 1), _rate(arm["iqm"]), _range(arm["iqm"])
        )
    pairs = _table("Pair", "Chance that it improves", "95 % interval")
    for pair in result["pairs"]:
        names = Text(visible(f"{pair['first']} -> {pair['second']}"))
        pairs.add_row(names, _rate(pair["probability"]), _range(pair["probability"]))
    head = Text(f"{result['tasks']} {result['split']} tasks of {result['task_set']}; intervals are over seeds")
    tables: list[RenderableType] = [head, Text(), arms, Text(), pairs]
    for decision in result["adastop"]:
        relation = {
            "better": "is better than",
            "worse": "is worse than",
            "equal": "is not distinguishable from",
            "more seeds": "needs more seeds to be compared with",
        }[decision["verdict"]]
        tables.append(Text(visible(f"AdaStop: {decision['first']} {relation} {decision['second']}")))
    return tables


def _curves(arms: Mapping[str, Any], key: str, name: str) -> Table:
    ks = sorted({k for arm in arms.values() for k in arm[key]}, key=float)
    table = _table(name, *ks)
    for arm, statistics in arms.items():
        cells = [
            f"{_rate(statistics[key][k])} [{_range(statistics[key][k])}]" if k in statistics[key] else "" for k in ks
        ]
        table.add_row(Text(visible(arm)), *cells)
    return table


def _table(first: str, *names: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(first, overflow="fold")
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _rate(estimate: Mapping[str, Any]) -> str:
    return percent(estimate["value"], 1) if estimate["n"] else "no data"


def _range(estimate: Mapping[str, Any]) -> str:
    return f"{hundredfold(estimate['low'], 1)} to {hundredfold(estimate['high'], 1)}" if estimate["n"] else ""
