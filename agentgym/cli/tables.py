"""Episodes and evaluations as tables and conversations for the terminal."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from agentgym.cli.uncut import Indented, Quoted
from agentgym.evaluation.cuts import command_option, cuts_of, format_cuts
from agentgym.evaluation.failures import KINDS
from agentgym.evaluation.record import Evaluation, weaker_limits
from agentgym.evaluation.statistics.proportion import success_rate
from agentgym.evaluation.strata import strata
from agentgym.evaluation.text import format_attempts, format_choices, format_search, format_usage, format_weaker
from agentgym.messages import Call, Message, Result
from agentgym.rollout.failures import format_causes
from agentgym.sandbox.metering import combine_usage
from agentgym.storage.failures import calls_of, count_failures
from agentgym.text import counted, format_count, percent, visible
from agentgym.trajectory.record import Trajectory

MAX_LINES, MAX_TAGS = 40, 16


def evaluation_table(evaluation: Evaluation) -> RenderableType:
    """Return a table of success overall and per tag, followed by the failures."""
    table = Table(box=None, pad_edge=False, header_style="bold", title_justify="left")
    for name in ("Tasks", "n", "Success", "95 % interval"):
        table.add_column(name, justify="left" if name == "Tasks" else "right")
    ks = [k for k in (2, 4, 8, 16) if k <= min((len(o) for o in evaluation.outcomes()), default=0)]
    for k in ks:
        table.add_column(f"pass@{k}", justify="right")
        table.add_column(f"pass^{k}", justify="right")
    tags, left_out = strata(evaluation, MAX_TAGS)
    for tag in [None, *tags]:
        estimate = evaluation.success(tag)
        if not estimate.n:
            table.add_row(tag or "all", "0", "no data", "", *[""] * (2 * len(ks)))
            continue
        pass_rates = [percent(f(k, tag)) for k in ks for f in (evaluation.pass_at, evaluation.pass_hat)]
        interval = f"{percent(estimate.low, 1)} to {percent(estimate.high, 1)}"
        row = [str(estimate.n), percent(estimate.value, 1), interval, *pass_rates]
        table.add_row(Text(tag or "all"), *row, style="bold" if tag is None else None)
    lines = [
        Text(
            f"{evaluation.task_set}:{evaluation.split}, {counted(evaluation.group_size, 'episode')} of each task, "
            f"{evaluation.policy}{format_search(evaluation)}"
        ),
        Text(f"{_means(evaluation)}episodes failed {evaluation.failed}, manifest {evaluation.manifest}", style="dim"),
    ]
    if evaluation.held_out_uses is not None:
        lines.append(
            Text(
                f"these held-out tasks were evaluated {format_count(evaluation.held_out_uses)} before on this machine",
                style="dim",
            )
        )
    if evaluation.adapted:
        lines.append(Text(f"the agent was {visible(evaluation.adapted)}", style="yellow"))
    if evaluation.knowledge:
        lines.append(Text(f"the agent was {visible(evaluation.knowledge)}", style="yellow"))
    if weaker := format_weaker(evaluation.weaker_limits):
        lines.append(Text(weaker, style="yellow"))
    if attempts := format_attempts(evaluation):
        lines.append(Text(f"attempts: {attempts}"))
    if cuts := format_cuts(evaluation.cuts(), command_option, episodes=sum(len(row.stop) for row in evaluation.rows)):
        lines.append(Text(cuts, style="yellow"))
    lines += _took(evaluation.usage() | {"wall_s": evaluation.duration_s}, "the evaluation took")
    unshown = [Text(f"not shown: {left_out}", style="dim")] if left_out else []
    causes = [Text(f"  {line}", style="red") for line in format_causes(evaluation.causes())]
    failures = evaluation.failures()
    most_frequent = next((kind for kind, _ in failures.most_common() if evaluation.run), None)
    examples = [
        Text(f"  for example {visible(name)}", style="dim") for name in evaluation.examples(most_frequent or "", 1)
    ]
    chosen = [Text(visible(line)) for line in format_choices(evaluation)]
    return Group(*lines, Text(), table, *unshown, *chosen, *_failures(failures), *examples, *causes)


def episodes_table(trajectories: Sequence[Trajectory]) -> RenderableType:
    """Return a table of the results of some episodes: success, turns, stop reasons, failures."""
    valid = [t for t in trajectories if t.valid]
    by_task: dict[str, list[float]] = {}
    scored = [t for t in trajectories if t.scored]
    for t in scored:
        if t.success is not None:
            by_task.setdefault(t.task.id, []).append(t.success)
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold")
    table.add_column()
    failed = len(trajectories) - len(scored)
    table.add_row("episodes", f"{len(trajectories)}, of which {failed} failed")
    estimate = success_rate(list(by_task.values()))
    table.add_row("success", estimate.percent() + (f" over {estimate.n} tasks" if estimate.n else ""))
    if valid:
        returns = [t.return_from() for t in valid]
        table.add_row("reward", f"{np.mean(returns):.3f}")
        table.add_row("turns", f"{np.mean([len(t.turns) for t in valid]):.2f} an episode")
        calls, ran = map(sum, zip(*map(calls_of, valid), strict=True))
        table.add_row("calls", f"{calls}, of which {percent(ran / calls)} ran" if calls else "none")
        tokens = sum(len(turn.token_ids) for t in valid for turn in t.turns)
        if tokens:
            table.add_row("tokens", f"{tokens:,} written by the agent")
    if took := format_usage(combine_usage([t.usage() for t in trajectories])):
        table.add_row("took", ", ".join(took))
    stops = Counter(t.stop_reason.value for t in trajectories if t.stop_reason)
    table.add_row("stopped", ", ".join(f"{name} {count}" for name, count in stops.most_common()))
    if weaker := format_weaker(weaker_limits(trajectories)):
        table.add_row("", Text(weaker, style="yellow"))
    if cuts := format_cuts(cuts_of(trajectories), command_option):
        table.add_row("", Text(cuts, style="yellow"))
    failures: Counter[str] = Counter()
    for t in trajectories:
        failures.update(count_failures(t))
    errors = Counter(t.error for t in trajectories if t.error)
    why = [Text(f"  {line}", style="red") for line in format_causes(errors)]
    return Group(table, *_failures(failures), *why)


def print_episode(trajectory: Trajectory, console: Console) -> None:
    """Print one episode as a conversation."""
    console.print(Text(trajectory.id, style="bold"))
    for message in trajectory.opening:
        console.print(message_panel(message))
    for turn in trajectory.turns:
        rewards = "  ".join(f"{name} {value:+.3g}" for name, value in turn.rewards.items())
        where = f" {turn.role}" * bool(turn.role) + f" row {turn.row + 1}" * bool(turn.row)
        console.print(Text.assemble((f"turn {turn.index + 1}", "bold"), (f"{where}   {rewards}".rstrip(), "dim")))
        if turn.message.thought:
            console.print(Indented(Text(_clip(turn.message.thought), style="dim italic"), 2))
        if turn.message.text.strip():
            console.print(Indented(Text(_clip(turn.message.text)), 2))
        for call in turn.calls:
            console.print(Indented(call_text(call), 2))
        for result in turn.results:
            console.print(Indented(result_text(result), 4))
        for reply in turn.replies:
            console.print(message_panel(reply))
        for line in _took(turn.usage, "took"):
            console.print(Indented(line, 2))
    stop = trajectory.stop_reason.value if trajectory.stop_reason else "not finished"
    if trajectory.provenance.hopeless:
        stop += f" ({trajectory.provenance.hopeless})"
    outcome = "  ".join(f"{name} {value:+.3g}" for name, value in trajectory.outcome.items()) or "not judged"
    console.print(Text.assemble((f"{stop}: ", "bold"), outcome))
    for line in _took(trajectory.usage(), "the episode took"):
        console.print(line)
    if trajectory.error:
        console.print(Text(_clip(trajectory.error), style="red"))


def message_panel(message: Message) -> RenderableType:
    """Return the panel of an opening message or an environment's message."""
    return Quoted(message.role, Text(_clip(message.text)))


def call_text(call: Call) -> Text:
    """Return a call as a person would write it."""
    if call.error is not None:
        return Text(f"[a call that could not be read] {visible(call.name)}", style="red")
    arguments = ", ".join(f"{k}={json.dumps(v, ensure_ascii=False, default=str)}" for k, v in call.arguments.items())
    return Text.assemble((visible(call.name), "bold cyan"), f"({_clip(arguments)})")


def result_text(result: Result) -> Text:
    """Return the text of a result; errors in red."""
    text = _clip(Message("tool", result.content).text) or "[nothing]"
    return Text(text) if result.ok else Text(f"{result.status.value}: {text}", style="red")


def _means(evaluation: Evaluation) -> str:
    """Return the share of calls that ran (if there were calls) and the mean turns (if any episode is valid)."""
    calls, turns = evaluation.execution_rate(), evaluation.mean_turns()
    ran = "" if math.isnan(calls) else f"calls that ran {percent(calls)}, "
    return ran + ("" if math.isnan(turns) else f"turns {turns:.1f} an episode, ")


def _took(usage: Mapping[str, float], subject: str) -> list[Text]:
    phrases = format_usage(usage)
    return [Text(f"{subject} {', '.join(phrases)}", style="dim")] if phrases else []


def _failures(counts: Counter[str]) -> list[Text]:
    phrases = [f"{counts[kind]} {_in_number(meaning, counts[kind])}" for kind, meaning in KINDS.items() if counts[kind]]
    return [Text("went wrong: " + "; ".join(phrases), style="dim")] if phrases else []


def _in_number(meaning: str, count: int) -> str:
    """Return the meaning of a kind of failure, in the singular for a count of one."""
    noun, _, rest = meaning.partition(" ")
    return meaning if count != 1 else f"{noun.removesuffix('s')} {rest.replace(' were ', ' was ')}"


def _clip(text: str) -> str:
    lines = visible(text).split("\n")
    if len(lines) <= MAX_LINES:
        return "\n".join(lines)
    return "\n".join([*lines[:MAX_LINES], f"[{len(lines) - MAX_LINES} more lines]"])
