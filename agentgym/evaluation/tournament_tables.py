"""The tables of a comparison, which the terminal and the page show."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from agentgym.evaluation.text import format_usage
from agentgym.text import hundredfold, percent, points


@dataclass(frozen=True, slots=True)
class Drawn:
    """An estimate that the page draws with its interval."""

    estimate: Mapping[str, Any]
    least: float = 0.0
    """The left end of the drawing."""
    most: float = 1.0
    """The right end of the drawing."""
    words: str = ""
    """The text before the drawing. The terminal omits a column of drawings without text and without `characters`."""
    characters: int = 0
    """The width of the drawing in the terminal, which shows the text alone if it is 0."""

    def in_characters(self) -> str:
        """Return the drawing for a terminal: `-` for the interval, `o` for the estimate, `|` for 0."""
        if not self.estimate["n"] or not self.characters:
            return self.words

        def column(value: float) -> int:
            share = (min(max(value, self.least), self.most) - self.least) / (self.most - self.least)
            return round(share * (self.characters - 1))

        low, high, value = (column(self.estimate[name]) for name in ("low", "high", "value"))
        line = ["-" if low <= i <= high else " " for i in range(self.characters)]
        line[column(0.0)] = "|"
        line[value] = "o"
        return "".join(line)


@dataclass(frozen=True, slots=True)
class EpisodeId:
    """The id of an episode, which the page links to the report of the agent's run."""

    agent: str
    id: str


FOREST = 17
MAX_CHANGED = 10
MAX_DETAILED = 3
"""With more pairs than this, the gain by kind of task and the changed tasks are in the JSON file alone."""
_VERDICTS = {
    "better": "is better than",
    "worse": "is worse than",
    "equal": "is not distinguishable from",
    "more seeds": "needs more seeds to be compared with",
}


Cell = str | Drawn | EpisodeId


class ComparisonTable(NamedTuple):
    """A table with the names of its columns, of which the first names the row."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[Cell]]


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
    if len(result["pairs"]) <= MAX_DETAILED:
        for pair in result["pairs"]:
            compared += _details(pair)
    return compared


def _details(pair: Mapping[str, Any]) -> Iterator[ComparisonTable]:
    """Yield the gain by kind of task, and the tasks that changed; nothing for one kind, and without a change."""
    of_pair = f": {pair['first']} -> {pair['second']}"
    known = [each["gain"] for each in pair["strata"] if each["gain"]["n"]]
    least = min([math.floor(10 * gain["low"]) / 10 for gain in known] + [0.0])
    most = max([math.ceil(10 * gain["high"]) / 10 for gain in known] + [least + 0.1])
    kinds = [
        [
            each["tag"] or "all tasks",
            str(each["gain"]["n"]),
            percent(each["first"]["value"]),
            percent(each["second"]["value"]),
            points(each["gain"]["value"], 1),
            Drawn(each["gain"], least, most, characters=FOREST),
            " to ".join(points(each["gain"][end], 1) for end in ("low", "high")),
        ]
        for each in pair["strata"]
        if each["gain"]["n"]
    ]
    if len(kinds) > 1:
        ends = f"{hundredfold(least)} to {hundredfold(most)}"
        head = ["Kind", "n", "First", "Second", "Gain", ends, "95 % interval"]
        yield ComparisonTable(f"Gain by kind of task{of_pair}", head, kinds)
    if changed := pair["changed"]:
        worse = [each for each in changed if each["second"] < each["first"]]
        better = [each for each in changed if each["second"] > each["first"]]
        listed = worse[: max(MAX_CHANGED // 2, MAX_CHANGED - len(better))]
        listed += better[: MAX_CHANGED - len(listed)]
        rows = [
            [
                each["task"],
                f"{percent(each['first'])} -> {percent(each['second'])}",
                *(
                    EpisodeId(pair[arm], episode)
                    for arm, episode in zip(("first", "second"), each["episodes"], strict=True)
                ),
            ]
            for each in listed
        ]
        more = f", {len(listed)} of {len(changed)}" if len(changed) > len(listed) else ""
        yield ComparisonTable(f"Changed tasks{of_pair}{more}", ["Changed task", "Solved", "First", "Second"], rows)


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
        return ["no data", Drawn(estimate, least=-1.0), ""]
    value, low, high = (points(estimate[name], 1) for name in ("value", "low", "high"))
    return [value, Drawn(estimate, least=-1.0), f"{low} to {high}"]


def _point(estimate: Mapping[str, Any]) -> Drawn:
    return Drawn(estimate, words=f"{rate(estimate)} [{interval(estimate)}]")
