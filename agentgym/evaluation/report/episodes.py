"""A few episodes to read: what was said, what came back, what was earned, and which turn got the credit."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence

from agentgym.evaluation.record import Evaluation
from agentgym.evaluation.report.contents import Contents
from agentgym.evaluation.report.html import Html, el
from agentgym.messages import Call, ImagePart, Message, Result
from agentgym.trajectory import Trajectory, Turn

FOLD_AFTER = 900
"""Characters of one message or result that are shown at once; the rest is behind a fold."""
MOST_SHOWN = 20_000


def chosen(contents: Contents) -> list[str]:
    """Ids of the episodes that the document shows."""
    pairs = _choose_pairs(*contents.pair())
    return [name for pair in pairs for name in pair if name] + _choose_group(contents.credit)


def episodes(contents: Contents) -> Html:
    """Pairs from before and after on the same task, and a group from training with its credit."""
    before, after = contents.pair()
    pairs = _choose_pairs(before, after)
    group = _choose_group(contents.credit)
    found = contents.episodes([name for pair in pairs for name in pair] + group)
    sections: list[Html] = []
    for pair in pairs:
        shown = [(label, found[name]) for label, name in zip(("Before", "After"), pair, strict=True) if name in found]
        if shown:
            task = shown[0][1].task
            sections.append(
                el("article", el("h3", "The same task, before and after" if len(shown) > 1 else f"{shown[0][0]}"),
                   _question(shown[0][1]),
                   el("div", [_episode(t, label) for label, t in shown], cls="pair"),
                   id=f"task-{len(sections)}", aria_label=f"task {task.id}")
            )  # fmt: skip
    trained = [found[name] for name in group if name in found]
    if trained:
        largest = max((abs(a) for t in trained for a in contents.credit.get(t.id, ())), default=0.0)
        step = contents.credit_steps.get(trained[0].id, 0)
        how = contents.setting("train", "estimator", default="the estimator")
        told = (
            f"Two tries at one task at step {step}. The bar beside a turn is what the trainer multiplies its tokens' "
            f"gradient by, as {how} gave it: to the right, more of this; to the left, less."
        )
        tries = [_episode(t, f"Try {t.sample + 1}", contents.credit.get(t.id), largest or 1.0) for t in trained]
        sections.append(
            el(
                "article",
                el("h3", "One group in training, with the credit of every turn"),
                el("p", told, cls="fine"),
                _question(trained[0]),
                el("div", tries, cls="pair"),
            )
        )
    return el("section", el("h2", "Episodes to read"), sections) if sections else Html("")


def _choose_pairs(before: Evaluation | None, after: Evaluation | None, most: int = 2) -> list[tuple[str, str]]:
    """Ids of the same task before and after: newly solved ones of different tags first, then one still unsolved."""
    if after is None:
        return []
    earlier = {row.task: row for row in before.rows} if before else {}

    def rank(row_task: str) -> tuple[int, int]:
        row, was = after_rows[row_task], earlier.get(row_task)
        now_solved, was_solved = bool(row.success and row.success[0]), bool(was and was.success and was.success[0])
        order = {(True, False): 0, (False, True): 2, (False, False): 3, (True, True): 1}
        return order[now_solved, was_solved], -max(row.turns, default=0)

    after_rows = {row.task: row for row in after.rows if row.success and row.success[0] is not None}
    chosen: list[tuple[str, str]] = []
    seen: set[tuple[str, ...]] = set()
    for task in sorted(after_rows, key=rank):
        tags = tuple(after_rows[task].tags)
        if tags in seen and len(seen) < len({tuple(r.tags) for r in after_rows.values()}):
            continue
        seen.add(tags)
        chosen.append((f"{before.run}/{task}#0" if before else "", f"{after.run}/{task}#0"))
        if len(chosen) == most:
            break
    return chosen


def _choose_group(credit: Mapping[str, Sequence[float]]) -> list[str]:
    """The two tries of one task whose credit differs most: one praised, one blamed."""
    groups: dict[str, list[str]] = defaultdict(list)
    for name in credit:
        groups[name.rpartition("#")[0]].append(name)

    def mean(name: str) -> float:
        return sum(credit[name]) / max(1, len(credit[name]))

    spread = {task: max(map(mean, names)) - min(map(mean, names)) for task, names in groups.items() if len(names) > 1}
    if not spread or max(spread.values()) < 1e-9:
        return []
    names = groups[max(spread, key=lambda task: spread[task])]
    return [max(names, key=mean), min(names, key=mean)]


def _question(trajectory: Trajectory) -> Html:
    shown = []
    for message in trajectory.opening or trajectory.task.opening():
        if message.role == "system":
            shown.append(el("details", el("summary", "System message"), _body(message.text)))
        else:
            shown.append(el("blockquote", _body(message.text)))
    tags = [el("span", tag, cls="tag") for tag in trajectory.task.tags]
    return el("div", el("p", el("code", trajectory.task.id), " ", tags, cls="fine"), shown, cls="question")


def _episode(trajectory: Trajectory, label: str, advantages: Sequence[float] | None = None, scale: float = 1.0) -> Html:
    """One episode as a column. `scale` is the advantage that fills half a bar, in reward units."""
    stop = trajectory.stop_reason.value.replace("_", " ") if trajectory.stop_reason else "still running"
    success = trajectory.success
    if not trajectory.valid:
        verdict, cls = "failed", "even"
    elif success is None:
        verdict, cls = "not judged", "even"
    else:
        verdict, cls = ("solved", "up") if success >= 1 else ("not solved", "down")
    told = f"{stop}, {len(trajectory.turns)} turns"
    rewards = [_chip(name, value) for name, value in trajectory.outcome.items()]
    turns = [
        _turn(turn, None if advantages is None or i >= len(advantages) else advantages[i], scale)
        for i, turn in enumerate(trajectory.turns)
    ]
    return el(
        "div",
        el("header", el("h4", label), el("b", verdict, cls=f"verdict {cls}"), el("small", told)),
        el("ol", turns, cls="turns"),
        el("p", f"Failed: {trajectory.error}", cls="fine") if trajectory.error else None,
        el("footer", "Outcome ", rewards) if rewards else None,
        cls="episode",
    )  # fmt: skip


def _turn(turn: Turn, advantage: float | None, scale: float) -> Html:
    said = turn.message.text.strip()
    return el(
        "li",
        el(
            "div", el("span", f"Turn {turn.index + 1}", cls="turn-number"),
            _credit_bar(advantage, scale) if advantage is not None else None,
            [_chip(name, value) for name, value in turn.rewards.items()], cls="turn-head",
        ),
        el("div", _body(said), cls="said") if said else None,
        [_call(call) for call in turn.calls],
        [_result(result) for result in turn.results],
        [el("div", el("small", m.role), _body(m.text), cls="result") for m in turn.replies],
        el("p", "[cut: a budget ended the message]", cls="fine") if turn.finish_reason == "length" else None,
    )  # fmt: skip


def _credit_bar(advantage: float, scale: float) -> Html:
    share = 50 * min(1.0, abs(advantage) / scale)
    side = "more" if advantage > 0 else "less" if advantage < 0 else "none"
    left = 50.0 if advantage >= 0 else 50.0 - share
    number = f"{advantage:+.2f}".replace("-", "\N{MINUS SIGN}")
    return el(
        "span",
        el("span", el("i", style=f"left:{left:.1f}%;width:{share:.1f}%", cls=side), cls="track"),
        el("span", number),
        cls="credit", title=f"advantage of this turn: {number}",
    )  # fmt: skip


def _call(call: Call) -> Html:
    if call.error is not None:
        return el("pre", el("code", el("b", "unreadable call "), call.name), cls="call bad")
    parts: list[Html | str] = [el("b", call.name), "("]
    for i, (name, value) in enumerate(call.arguments.items()):
        shown = json.dumps(value, ensure_ascii=False, default=str)
        if isinstance(value, str) and "\n" in value:
            shown = '"""\n' + value.rstrip("\n") + '\n"""'
        parts += [", " if i else "", el("span", f"{name}=", cls="argument"), shown[:MOST_SHOWN]]
    return el("pre", el("code", parts, ")"), cls="call")


def _result(result: Result) -> Html:
    label = result.status.value.replace("_", " ")
    images = [] if isinstance(result.content, str) else [p for p in result.content if isinstance(p, ImagePart)]
    return el(
        "div",
        el("small", "result" if result.ok else label, cls=None if result.ok else "bad"),
        _body(Message("tool", result.content).text, code=True),
        el("small", f"{len(images)} image(s) not shown") if images else None,
        cls="result" if result.ok else "result bad",
    )


def _body(value: str, *, code: bool = False) -> Html:
    """Text as it was written; long text behind a fold."""
    name = "pre" if code else "p"
    if len(value) <= FOLD_AFTER:
        return el(name, value, cls="text")
    rest = value[FOLD_AFTER:MOST_SHOWN]
    more = f"{len(value) - FOLD_AFTER:,} more characters"
    left_out = len(value) - MOST_SHOWN
    return el(
        "div",
        el(name, value[:FOLD_AFTER], "…", cls="text"),
        el("details", el("summary", more), el(name, rest, cls="text"),
           el("p", f"[{left_out:,} characters are left out here; the ledger holds them]", cls="fine")
           if left_out > 0 else None),
    )  # fmt: skip


def _chip(name: str, value: float) -> Html:
    cls = "chip up" if value > 0 else "chip down" if value < 0 else "chip"
    number = f"{value:+.3g}".replace("-", "\N{MINUS SIGN}") if value else "0"
    return el("span", f"{name} ", el("b", number), cls=cls)
