"""Draws what each estimator says of one and the same group of four episodes: docs/pictures/credit/<name>.svg.

    python docs/pictures/credit.py            # write them
    python docs/pictures/credit.py --check    # exit 1 and name those that are not up to date

Each episode: a `look` at the tables (3 of 4 agents begin with it, the others `guess`), then a `right` query (6 of 10)
or a `wrong` one, each paying the turn reward 0.2 because it ran; then the `answer`, right after the right query alone.
Looking `again` changes nothing. Every signal below follows from that, except where its comment says otherwise.
"""

from __future__ import annotations

import argparse
import math
import sys
import warnings
from itertools import combinations
from pathlib import Path

import numpy as np

from agentgym import registry
from agentgym.credit import Credit, CreditWarning, Group, estimator

FOLDER = Path(__file__).parent / "credit"
EPISODES = (
    ("look", "right", "answer"),
    ("look", "wrong", "answer"),
    ("guess",),
    ("look", "again", "right", "answer"),
)
SOLVED = (1.0, 0.0, 0.0, 1.0)
PAYS = {"right": 0.2, "wrong": 0.2}
LEADS = {"look": "looked", "again": "looked", "right": "found", "wrong": "misled", "guess": "over", "answer": "over"}
VALUE = {"start": 0.6, "looked": 0.8, "found": 1.0, "misled": 0.0, "over": 0.0}
PROGRESS = {"start": 0.0, "looked": 0.5, "found": 0.9, "misled": 0.3}  # an environment's word, right in its order
GOLD = {"start": 0.2, "looked": 0.4, "found": 0.95, "misled": 0.1, "over": 0.0}  # likelihood of the gold answer
CHANCE = {"look": 0.75, "guess": 0.25, "right": 0.6, "wrong": 0.4, "again": 1.0, "answer": 1.0}
IN_HINDSIGHT = {  # chance of the turn where it is known how the episode ended; P(solved) = 0.45
    1.0: {"look": 1.0, "right": 1.0},
    0.0: {"look": 0.3 / 0.55, "guess": 0.25 / 0.55, "wrong": 1.0},
}
SHARE = {"look": 0.2, "right": 0.8, "wrong": -0.2}  # what a progress estimator has learnt to say
TOKENS = {"look": 12, "again": 12, "right": 30, "wrong": 30, "answer": 8, "guess": 6}
UNSURE = {"look": 0.6, "guess": 0.6, "right": 0.9, "wrong": 0.9, "again": 0.2, "answer": 0.1}  # nats
SURE = {"look": 8.0, "guess": 8.0, "right": 7.0, "wrong": 7.0, "again": 12.0, "answer": 14.0}  # nats above a guess
DEVIATES = {"look": 0.5, "right": 0.2, "answer": 0.3, "again": 0.8, "wrong": 1.0, "guess": 1.2}  # from successes
RATIO = {"wrong": 0.9, "right": -0.2, "again": -1.5}  # log of the trained over the sampling policy: a stale batch

WIDTH, HEIGHT, GAP, MARGIN = 80, 26, 4, 8
GOOD, BAD, NONE, INK, PAPER = (0, 114, 178), (213, 94, 0), (238, 238, 238), "#222222", "#ffffff"


def states(turns: tuple[str, ...]) -> list[str]:
    """Before each turn."""
    return ["start", *(LEADS[turn] for turn in turns[:-1])]


def values_after(turns: tuple[str, ...]) -> list[float]:
    """What is to be expected after each turn; after the last, its outcome."""
    return [*(VALUE[state] for state in states(turns)[1:]), float(turns[-2:-1] == ("right",))]


def replayed(turns: tuple[str, ...]) -> dict[frozenset[int], float]:
    """The return with only some turns said: a query fails unless something was looked at before."""
    values = {}
    for size in range(len(turns) + 1):
        for indices in combinations(range(len(turns)), size):
            chosen = [turns[k] for k in indices]
            ran = [t for t in ("right", "wrong") if t in chosen and {"look", "again"} & set(chosen[: chosen.index(t)])]
            values[frozenset(indices)] = sum(PAYS[t] for t in ran) + float("right" in ran and chosen[-1] == "answer")
    return values


def the_group() -> Group:
    """The four episodes with every signal that an estimator may ask for."""
    rows = list(zip(EPISODES, SOLVED, strict=True))

    def worth(turns: tuple[str, ...]) -> list[float]:
        before = [VALUE[state] for state in states(turns)]
        return [
            PAYS.get(t, 0.0) + v for t, v in zip(turns, [*before[1:], float(turns[-2:-1] == ("right",))], strict=True)
        ]

    return Group.from_arrays(
        outcomes=SOLVED,
        turn_rewards=[[PAYS.get(turn) for turn in turns] for turns in EPISODES],
        components={"ran": [[PAYS.get(turn) for turn in turns] for turns in EPISODES]},
        outcome_components={"success": SOLVED},
        tool_turn=[[turn not in ("guess", "answer") for turn in turns] for turns in EPISODES],
        stop_reasons=["max_turns" if len(turns) > 3 else "answered" for turns in EPISODES],
        state_keys=[states(turns) for turns in EPISODES],
        action_keys=[list(turns) for turns in EPISODES],
        branches=[["/".join(turns[: k + 1]) for k in range(len(turns))] for turns in EPISODES],
        values=[[*(VALUE[state] for state in states(turns)), 0.0] for turns in EPISODES],
        action_values=[worth(turns) for turns in EPISODES],
        token_values=[[[VALUE[s], q] for s, q in zip(states(turns), worth(turns), strict=True)] for turns in EPISODES],
        potentials=[[PROGRESS[state] for state in states(turns)] for turns in EPISODES],
        gold_logprobs=[[math.log(GOLD[state]) for state in (*states(turns), states(turns)[-1])] for turns in EPISODES],
        contributions=[[SHARE.get(turn, 0.0) for turn in turns] for turns in EPISODES],
        hindsight=[
            [math.log(IN_HINDSIGHT[solved].get(turn, 1.0) / CHANCE[turn]) for turn in turns] for turns, solved in rows
        ],
        counterfactuals=[replayed(turns) for turns in EPISODES],
        continuations=[[*([VALUE[state]] for state in states(turns)), [solved]] for turns, solved in rows],
        lengths=[[TOKENS[turn] for turn in turns] for turns in EPISODES],
        score_norms=[[1 - CHANCE[turn] for turn in turns] for turns in EPISODES],
        entropies=[[UNSURE[turn] for turn in turns] for turns in EPISODES],
        versions=[[0 if len(turns) > 3 and k < 2 else 3 for k in range(len(turns))] for turns in EPISODES],
        token_entropies=[[[UNSURE[turn]] * TOKENS[turn] for turn in turns] for turns in EPISODES],
        token_certainties=[[[SURE[turn]] * TOKENS[turn] for turn in turns] for turns in EPISODES],
        flow_deviations=[[[DEVIATES[turn]] * TOKENS[turn] for turn in turns] for turns in EPISODES],
        rank_deviations=[0.1 * (len(turns) - 2) for turns in EPISODES],
        rank_velocity_deviations=[0.0] * len(EPISODES),
        rank_acceleration_deviations=[0.0] * len(EPISODES),
        span_values=[[[1.0] * 6 if turn == "wrong" else [] for turn in turns] for turns in EPISODES],
        log_ratios=[[[RATIO.get(turn, 0.0)] for turn in turns] for turns in EPISODES],
    )


def truth() -> list[np.ndarray]:
    """What each turn brought: its reward, and by how much it raised what was to be expected."""
    rows = []
    for turns in EPISODES:
        before = [VALUE[state] for state in states(turns)]
        steps = zip(turns, before, values_after(turns), strict=True)
        rows.append(np.array([PAYS.get(turn, 0.0) + later - now for turn, now, later in steps]))
    return rows


def picture(name: str, advantages: list[np.ndarray]) -> str:
    """One row an episode, one cell a turn: blue encourages it, orange discourages it, grey is exactly 0."""
    most = max(float(np.abs(row).max()) for row in advantages) or 1.0
    width = 2 * MARGIN + max(map(len, EPISODES)) * (WIDTH + GAP) + 58
    height = 2 * MARGIN + len(EPISODES) * (HEIGHT + GAP) - GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'font-family="system-ui, sans-serif" font-size="11" role="img">',
        f"<title>{name}: the advantage of each turn of four episodes</title>",
        f'<rect width="{width}" height="{height}" rx="6" fill="{PAPER}"/>',
    ]
    for i, (turns, row) in enumerate(zip(EPISODES, advantages, strict=True)):
        top = MARGIN + i * (HEIGHT + GAP)
        middle = top + HEIGHT / 2 + 4
        for k, (turn, value) in enumerate(zip(turns, row, strict=True)):
            left, share = MARGIN + k * (WIDTH + GAP), 0.0 if abs(value) < 5e-4 else abs(float(value)) / most
            parts.append(
                f'<rect x="{left}" y="{top}" width="{WIDTH}" height="{HEIGHT}" rx="3" fill="{_colour(value, share)}"/>'
                f'<text x="{left + 5}" y="{middle}" fill="{_ink(share)}">{turn}</text>'
                f'<text x="{left + WIDTH - 4}" y="{middle}" text-anchor="end" fill="{_ink(share)}" '
                f'font-size="9.5">{_number(value)}</text>'
            )
        verdict, left = "solved" if SOLVED[i] else "failed", MARGIN + len(turns) * (WIDTH + GAP) + 4
        parts.append(f'<text x="{left}" y="{middle}" fill="{INK}" font-style="italic">{verdict}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _colour(value: float, share: float) -> str:
    if share == 0:
        return "#{:02x}{:02x}{:02x}".format(*NONE)
    strong = 0.15 + 0.85 * share
    mixed = (round(255 + (c - 255) * strong) for c in (GOOD if value > 0 else BAD))
    return "#{:02x}{:02x}{:02x}".format(*mixed)


def _ink(share: float) -> str:
    return "#ffffff" if share > 0.6 else INK


def _number(value: float) -> str:
    return "0" if abs(value) < 5e-4 else f"{value:+.2f}".replace("-", "\N{MINUS SIGN}")


def pictures() -> dict[str, str]:
    """Every picture by its file name."""
    group = the_group()
    drawn = {"truth.svg": picture("truth", truth())}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CreditWarning)
        for name in registry.names("estimators"):
            drawn[f"{name}.svg"] = picture(name, estimator(name)(group))
        for name, text in WRAPPED.items():
            drawn[f"{name}.svg"] = picture(text, mean_over_tokens(estimator(text).explain(group)))
    return drawn


def mean_over_tokens(credit: Credit) -> list[np.ndarray]:
    """The advantages of turns; where tokens are weighed, those of a turn's tokens on average."""
    if credit.token_weights is None:
        return credit.advantages
    return [
        np.array([advantage * of_turn.mean() for advantage, of_turn in zip(row, weights, strict=True)])
        for row, weights in zip(credit.advantages, credit.token_weights, strict=True)
    ]


WRAPPED = {
    "gated": "return_to_go | gated(paid='turns')",
    "calibrated": "return_to_go | calibrated(weights={'ran': -0.5})",
    "masked": "return_to_go | masked(over_turn=True)",
    "truncation": "return_to_go | truncation(limit_tokens=60, buffer_tokens=20)",
    "off_policy": "return_to_go | off_policy(mode='tis')",
    "entropy_weighted": "return_to_go | entropy_weighted",
    "entropy_tokens": "return_to_go | entropy_tokens",
    "top_tokens": "return_to_go | top_tokens(share=0.5)",
    "span_weighted": "return_to_go | span_weighted",
    "flow_tokens": "return_to_go | flow_tokens",
    "rank_shaped": "return_to_go | rank_shaped",
    "self_certainty": "return_to_go | self_certainty",
    "task_normalised": "return_to_go | task_normalised",
    "difficulty_scaled": "return_to_go | difficulty_scaled",
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing")
    check = parser.parse_args().check
    FOLDER.mkdir(exist_ok=True)
    there = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.svg")}
    drawn = pictures()
    stale = sorted(name for name in {*there, *drawn} if there.get(name) != drawn.get(name))
    if check:
        print("\n".join(stale) or f"{len(drawn)} pictures are up to date.")
        return int(bool(stale))
    for name in stale:
        if name in drawn:
            (FOLDER / name).write_text(drawn[name], encoding="utf-8")
        else:
            (FOLDER / name).unlink()
    print(f"{len(drawn)} pictures in {FOLDER}, {len(stale)} of them changed.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
