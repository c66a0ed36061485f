"""The top of the page: what was learned, on which tasks, how sure that is, and what still goes wrong."""

from __future__ import annotations

import math

from agentgym.evaluation.comparison import compare
from agentgym.evaluation.failures import KINDS
from agentgym.evaluation.record import Evaluation, times
from agentgym.evaluation.report.contents import Contents
from agentgym.evaluation.report.html import Html, el
from agentgym.evaluation.report.svg import show
from agentgym.evaluation.statistics import Comparison, Estimate

MOST_TAGS = 12


def headline(contents: Contents) -> Html:
    """The sentence a reader takes home, with the numbers behind it."""
    before, after = contents.pair()
    if after is None:
        return el(
            "section",
            el("p", "Nothing has been measured yet.", cls="claim"),
            el("p", "This run has no evaluation. The page shows what there is so far.", cls="under"),
            cls="hero",
        )
    tag = _chosen_stratum(contents, after)
    place = f"{len(after.select(tag)):,} {after.split.replace('_', '-')} tasks of {after.task_set}"
    place += f" tagged {tag}" if tag else ""
    now = after.success(tag)
    if before is None:
        claim = ["Solves ", el("strong", _percent(now.value)), f" of {place}."]
        return el("section", el("p", claim, cls="claim"), el("p", _interval(now), cls="under"), cls="hero")
    gain = compare(before, after, tag=tag)
    change = gain.difference
    what = "Held-out success" if after.split == "held_out" else "Success"
    return el(
        "section",
        el("p", _claim(what, before.success(tag).value, now.value), cls="claim"),
        el("p", el("b", _points(change)), f", paired 95 % interval {_range(change)}. {_verdict(gain)}", cls="under"),
        el(
            "p", f"The same {place}, {_samples(after)} each. {gain.better} tasks are solved more often than before, "
            f"{gain.worse} less often, {gain.same} as often.", cls="under",
        ),
        cls="hero",
    )  # fmt: skip


def _chosen_stratum(contents: Contents, after: Evaluation) -> str | None:
    """The tag that the recipe wants the headline to speak of, if any task carries it."""
    tag = contents.setting("evaluate", "stratum")
    return tag if tag in after.tags else None


def _claim(what: str, was: float, now: float) -> list[Html | str]:
    before, after = el("strong", _percent(was), cls="was"), el("strong", _percent(now), cls="now")
    if _percent(was) == _percent(now):
        return [f"{what} stayed at ", after, "."]
    return [f"{what} {'rose' if now > was else 'fell'} from ", before, " to ", after, "."]


def strata(contents: Contents) -> Html:
    """Before and after per tag: a drawing and the table behind it."""
    before, after = contents.pair()
    if after is None:
        return Html("")
    tags = [tag for tag in after.tags if len(after.select(tag)) < len(after.rows)]
    first = _chosen_stratum(contents, after)
    tags.sort(key=lambda tag: tag != first)  # stable: the rest stays most frequent first
    rows = [_stratum(tag, before, after) for tag in (None, *tags[:MOST_TAGS])]
    head = ["Tasks", "n", "Before", "", "After", "Gain, paired"] if before else ["Tasks", "n", "Success", ""]
    more = f" Rarer tags that are left out: {len(tags) - MOST_TAGS}." if len(tags) > MOST_TAGS else ""
    failed = after.failed + (before.failed if before else 0)
    return el(
        "section",
        el("h2", "By kind of task"),
        el(
            "div",
            el(
                "table",
                el("caption", "Success by kind of task, with 95 % intervals"),
                el("thead", el("tr", [el("th", h, scope="col") if h else el("td", _scale()) for h in head])),
                el("tbody", rows),
                cls="strata",
            ),
            cls="scroll", tabindex=0,
        ),
        el(
            "p", f"n counts tasks. Intervals are Wilson's, of the effective number of samples where tasks were "
            f"tried more than once; the gain's interval is a bootstrap over task pairs.{more} "
            + (f"{failed} episodes failed with their infrastructure and are left out of every number."
               if failed else "No episode failed with its infrastructure."),
            cls="fine",
        ),
    )  # fmt: skip


def samples(contents: Contents) -> Html:
    """pass@k and pass^k with their intervals, where tasks were tried more than once."""
    rows = [
        (f"{evaluation.label}, {name}", evaluation.pass_curve(all_of_them=hat))
        for evaluation in contents.pair() if evaluation is not None and evaluation.samples > 1
        for name, hat in (("pass@k", False), ("pass^k", True))
    ]  # fmt: skip
    ks = sorted({k for _, curve in rows for k in curve})
    if len(ks) < 2:
        return Html("")
    body = [
        el("tr", el("th", name, scope="row"), [el("td", _estimate(c[k]) if k in c else "", cls="num") for k in ks])
        for name, c in rows
    ]  # fmt: skip
    heads = el("tr", el("th", "k", scope="col"), [el("th", k, scope="col", cls="num") for k in ks])
    return el(
        "section",
        el("h2", "Luck and reliability"),
        el(
            "div",
            el(
                "table",
                el("caption", "pass@k: at least one of k tries solves the task. pass^k: all k do. "
                   "With 95 % intervals over tasks"),
                el("thead", heads), el("tbody", body),
            ),
            cls="scroll", tabindex=0,
        ),
    )  # fmt: skip


def mistakes(contents: Contents) -> Html:
    """What went wrong, per hundred episodes, before and after."""
    before, after = contents.pair()
    if after is None:
        return Html("")
    shown = [e for e in (before, after) if e]
    counts = [e.failures() for e in shown]
    kinds = [kind for kind in KINDS if any(c[kind] for c in counts)]
    if not kinds:
        return Html("")
    totals = [max(1, sum(len(r.success) for r in e.rows)) for e in shown]
    most = max(100 * c[kind] / n for c, n in zip(counts, totals, strict=True) for kind in kinds)
    body = []
    for kind in kinds:
        rates = [100 * c[kind] / n for c, n in zip(counts, totals, strict=True)]
        bars = [
            el("div", el("i", cls=f"bar {cls}", style=f"width:{max(100 * rate / max(most, 1e-9), 0.4):.1f}%"),
               el("span", show(round(rate, 1))), cls="barline")
            for rate, cls in zip(rates, ("was", "now")[-len(rates) :], strict=True)
        ]  # fmt: skip
        body.append(el("tr", el("th", KINDS[kind], scope="row"), el("td", bars)))
    return el(
        "section",
        el("h2", "What still goes wrong"),
        el("div",
           el("table",
              el("caption", "Per 100 episodes",
                 [": ", el("i", cls="key was"), " before, ", el("i", cls="key now"), " after"] if before else None),
              el("tbody", body), cls="mistakes"), cls="scroll", tabindex=0),
    )  # fmt: skip


def facts(contents: Contents) -> Html:
    """A row of small numbers: how the agent behaves, before and after."""
    before, after = contents.pair()
    if after is None:
        return Html("")

    def pair(value: str, was: str | None) -> Html:
        return el("dd", value, el("small", f" was {was}") if was is not None else None)

    items = [
        ("Calls that ran", *(_percent(e.execution_rate()) if e else None for e in (after, before))),
        ("Turns per episode", *(f"{e.mean_turns():.1f}" if e else None for e in (after, before))),
        ("Episodes failed", *(str(e.failed) if e else None for e in (after, before))),
    ]
    cells = [el("div", el("dt", name), pair(str(now), was)) for name, now, was in items]
    if control := next((e for e in contents.evaluations if e.label == "control"), None):
        solved = control.success(_chosen_stratum(contents, control)).value
        cells.append(el("div", el("dt", "With another world behind the tools"), el("dd", _percent(solved))))
    if after.opened is not None:
        cells.append(el("div", el("dt", "Held-out tasks opened before"), el("dd", times(after.opened))))
    if estimator := contents.setting("train", "estimator"):
        cells.append(el("div", el("dt", "Credit by"), el("dd", str(estimator))))
    return el("dl", cells, cls="facts")


def _stratum(tag: str | None, before: Evaluation | None, after: Evaluation) -> Html:
    name = el("th", tag or "all tasks", scope="row")
    now = after.success(tag)
    cells = [name, el("td", f"{now.n:,}", cls="num")]
    if before is None:
        cells += [el("td", _estimate(now), cls="num"), el("td", _dots(None, now))]
        return el("tr", cells, cls="all" if tag is None else None)
    was, gain = before.success(tag), compare(before, after, tag=tag)
    mark = "up" if gain.difference.low > 0 else "down" if gain.difference.high < 0 else "even"
    cells += [
        el("td", _estimate(was), cls="num"),
        el("td", _dots(was, now)),
        el("td", _estimate(now), cls="num"),
        el("td", el("b", _points(gain.difference), cls=mark), " ", el("small", _range(gain.difference)), cls="num"),
    ]
    return el("tr", cells, cls="all" if tag is None else None)


def _dots(was: Estimate | None, now: Estimate) -> Html:
    """Both rates with their intervals on one line from 0 to 100 %."""
    width, height = 220, 26
    shapes = [el("line", cls="grid", x1=x, x2=x, y1=0, y2=height) for x in (5, 57.5, 110, 162.5, 215)]
    for estimate, cls, y in ((was, "was", 8), (now, "now", 18)) if was else ((now, "now", 13),):
        if estimate is None or not estimate.n:
            continue
        low, mid, high = (round(5 + 210 * v, 1) for v in (estimate.low, estimate.value, estimate.high))
        shapes.append(el("line", cls=f"whisker {cls}", x1=low, x2=high, y1=y, y2=y))
        shapes.append(el("circle", cls=f"spot {cls}", cx=mid, cy=y, r=4))
    label = (f"before {was.percent()}, " if was else "") + f"after {now.percent()}"
    return el("svg", el("title", label), shapes, viewBox=f"0 0 {width} {height}", role="img", cls="dots")


def _scale() -> Html:
    marks = [
        el("text", f"{share} %", x=5 + 2.1 * share, y=12, cls="tick",
           text_anchor="start" if share == 0 else "end" if share == 100 else "middle")
        for share in (0, 50, 100)
    ]  # fmt: skip
    return el("svg", marks, viewBox="0 0 220 16", cls="dots", aria_hidden="true")


def _estimate(e: Estimate) -> Html | str:
    if not e.n:
        return "no data"
    return el("span", _percent(e.value), " ", el("small", f"{100 * e.low:.0f}\N{EN DASH}{100 * e.high:.0f}"))


def _verdict(gain: Comparison) -> str:
    p = f"p\u00a0=\u00a0{gain.p_value:.1g}" if gain.p_value >= 1e-4 else "p\u00a0<\u00a00.0001"
    if gain.significant:
        return f"Chance does not explain it (sign test {p})."
    return f"Chance could explain it (sign test {p})."


def _samples(e: Evaluation) -> str:
    return f"tried {times(e.samples)}"


def _interval(e: Estimate) -> str:
    return f"95 % interval {100 * e.low:.1f} to {100 * e.high:.1f} %, over {e.n:,} tasks."


def _points(change: Estimate) -> str:
    return "no data" if not change.n else f"{_signed(100 * change.value)} points"


def _range(change: Estimate) -> str:
    return "" if not change.n else f"{_signed(100 * change.low)} to {_signed(100 * change.high)}"


def _signed(value: float) -> str:
    return f"{value:+.1f}".replace("-", "\N{MINUS SIGN}")


def _percent(value: float) -> str:
    if math.isnan(value):
        return "\N{EN DASH}"
    return f"{100 * value:.0f} %" if value in (0, 1) or 0.005 <= value <= 0.995 else f"{100 * value:.1f} %"
