"""Estimates how long a run will take, from a few seconds of playing and training with its model.

How long its episodes will be is not known in advance. So there are two estimates: one as if all episodes were as long
as the oracle's, one as if all used up the recipe's budgets.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import astuple, dataclass, replace
from datetime import timedelta

import torch

from agentgym.errors import AgentGymError
from agentgym.task.task_set import TaskSet
from agentgym.text import counted
from agentgym.training.demonstrate import demonstrations, tokenise
from agentgym.training.recipe.episode_section import EpisodeSection
from agentgym.training.recipe.train_section import TrainSection
from agentgym.training.recipe.warm_start_section import WarmStartSection
from agentgym.training.stages.context import Learner, RunContext
from agentgym.training.stages.contract import PlannedStage
from agentgym.trajectory.record import Trajectory

_WRITTEN = 9
"""The number of tokens of the longer of two measured messages; the shorter has one token."""
_LEARNED = 256
"""The tokens of the sequence by which training is measured."""
_DEMONSTRATIONS = 4
_COUNTED = ("train", "warm_start", "evaluate")
"""The sections of those stages whose amount of work a recipe says in advance."""


@dataclass(frozen=True, slots=True)
class Lengths:
    """The lengths of an episode, in tokens: its prompt, what the agent writes, what the tools answer."""

    prompt: float
    written: float
    results: float


@dataclass(frozen=True, slots=True)
class Speeds:
    """The measured speeds.

    Attributes:
        read, learned: tokens per second of a forward pass, and of a forward and a backward pass.
        written: tokens per second of all episodes that are played at once.
        episode_s: the seconds of one of them beside reading and writing: its sandbox, its reset, its judge.
    """

    read: float
    written: float
    learned: float
    episode_s: float


@dataclass(frozen=True, slots=True)
class RunWork:
    """The work of a run: how many prompts are read, and how many episodes are played and learned from."""

    prompts_played: int = 0
    episodes_played: int = 0
    prompts_learned: int = 0
    episodes_learned: int = 0

    def seconds(self, lengths: Lengths, speeds: Speeds) -> float:
        """Return the time of the work with episodes of these lengths."""
        read = self.prompts_played * lengths.prompt + self.episodes_played * lengths.results
        own = lengths.written + lengths.results
        learned = self.prompts_learned * lengths.prompt + self.episodes_learned * own
        playing = self.episodes_played * (speeds.episode_s + lengths.written / speeds.written)
        return read / speeds.read + playing + learned / speeds.learned


def work_of(stages: Sequence[PlannedStage], context: RunContext) -> RunWork:
    """Return the amount of work that follows from the stages' recipes, before anything is played.

    The prompt of a group counts once, because it is read once.
    """
    works = [_work_of_stage(stage, context.task_set) for stage in stages]
    return RunWork(*(sum(counts) for counts in zip(*map(astuple, works), strict=True)))


def _work_of_stage(stage: PlannedStage, task_set: TaskSet) -> RunWork:
    train, warm_start, evaluate = stage.recipe.train, stage.recipe.warm_start, stage.recipe.evaluate

    def validations(section: TrainSection | WarmStartSection) -> int:
        """Return how many episodes a stage plays to validate, also after its last step."""
        return -(-section.steps // section.validate_every) * min(section.validate_tasks, len(task_set["validation"]))

    match stage.stage.section:
        case "evaluate":
            count = min(evaluate.tasks or len(task_set["held_out"]), len(task_set["held_out"]))
            return RunWork(count, count * evaluate.group_size)
        case "train":
            prompts, validated = train.steps * train.tasks_per_step, validations(train)
            episodes, passes = prompts * train.group_size, train.iterations
            return RunWork(prompts + validated, episodes + validated, passes * prompts, passes * episodes)
        case "warm_start" if warm_start is not None:
            examples, validated = warm_start.steps * warm_start.batch_size, validations(warm_start)
            return RunWork(validated, validated, examples, examples)
    return RunWork()


def budgeted(episode: EpisodeSection, prompt: float) -> Lengths:
    """Return the lengths of an episode that uses up the budgets of [episode]."""
    written = min(episode.max_turns * episode.max_turn_tokens, episode.max_episode_tokens)
    return Lengths(prompt, written, episode.max_episode_tokens - written)


def time_notes(stages: Sequence[PlannedStage], context: RunContext, learner: Learner) -> Iterator[str]:
    """Play and train for some seconds. Yields: a sentence on how long the run will take.

    Yields nothing for a run that plays on vLLM or shards its model, because these speeds are known only later; nor if
    no episode can be played: the first stage then says why.
    """
    if context.engine is not None or context.recipe.machine.sharding is not None or not context.task_set["train"]:
        return
    recipe = context.recipe
    rows = min(recipe.train.tasks_per_step * recipe.train.group_size, recipe.episode.concurrency)
    try:
        with torch.random.fork_rng():  # a run draws the same numbers with and without the estimate
            speeds, prompt = _measure(context, learner, rows)
        examples = _oracle_episodes(context, learner)
    except AgentGymError:
        return
    work = work_of(stages, context)
    times = (
        f"about {_span(work.seconds(budgeted(recipe.episode, prompt), speeds))} if every episode uses up its budgets"
    )
    if examples:
        turns = [turn for trajectory in examples for row in trajectory.rows() for turn in row.turns]
        written = sum(len(turn.token_ids or ()) for turn in turns) / len(examples)
        results = sum(len(turn.observation_ids or ()) for turn in turns) / len(examples)
        likely = work.seconds(Lengths(prompt, written, results), speeds)
        times = f"about {_span(likely)} if episodes are as long as the oracle's ({written:.0f} tokens), {times}"
    left_out = [stage.name for stage in stages if stage.stage.section not in _COUNTED]
    without = f", without {', '.join(left_out)}" if left_out else ""
    yield (
        f"Time: {times}{without}. Measured: {speeds.read:,.0f} tokens a second read, {speeds.written:,.0f} written "
        f"by {counted(rows, 'episode')} at once, {speeds.learned:,.0f} learned from."
    )


def _measure(context: RunContext, learner: Learner, rows: int) -> tuple[Speeds, int]:
    """Measure the speeds, and the tokens of a training task's prompt."""
    trajectories: list[Trajectory] = []
    cheaply = context.rollouts.with_config(reward=None)  # asks no paid judge

    def play(tokens: int) -> float:
        """Return the seconds of `rows` episodes of one task with one message of at most `tokens` tokens."""
        nonlocal trajectories
        budgets = replace(context.rollouts.config.budgets, max_turns=1, max_turn_tokens=tokens)
        rollouts, tasks = cheaply.with_config(budgets=budgets), context.task_set["train"][:1]
        started = time.perf_counter()
        trajectories = rollouts.play(learner.policy, tasks, label=f"time-{tokens}", group_size=rows, record=False)
        return time.perf_counter() - started

    read, learned = _passes(context, learner)
    play(1)  # makes what the first episodes need
    short_s, long_s = play(1), play(_WRITTEN)
    prompt = len(trajectories[0].prompt_ids or ())
    further = sum(len(turn.token_ids or ()) for trajectory in trajectories for turn in trajectory.turns) - rows
    episode_s = max(0.0, short_s - prompt / read) / rows
    return Speeds(read, max(1, further) / max(long_s - short_s, 1e-3), learned, episode_s), prompt


def _passes(context: RunContext, learner: Learner) -> tuple[float, float]:
    """Return the tokens per second of a forward pass, and of a forward and a backward pass, in the run's precision."""
    model, precision = learner.model, context.recipe.train.autocast(context.device)
    device = torch.device(context.device)
    autocast = torch.autocast(device.type, getattr(torch, precision)) if precision else nullcontext()
    was_training, marks = model.training, [0.0, 0.0, 0.0]
    model.train()
    for tokens in (8, _LEARNED):  # the first loads kernels
        ids = torch.randint(len(learner.tokenizer), (1, tokens), device=device)
        marks[0] = time.perf_counter()
        with autocast:
            loss = model(input_ids=ids, labels=ids, use_cache=False).loss
        loss.item()  # waits for a GPU
        marks[1] = time.perf_counter()
        loss.backward()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        marks[2] = time.perf_counter()
        model.zero_grad(set_to_none=True)
    model.train(was_training)
    return _LEARNED / (marks[1] - marks[0]), _LEARNED / (marks[2] - marks[0])


def _oracle_episodes(context: RunContext, learner: Learner) -> list[Trajectory]:
    """Return some of the oracle's episodes with token ids; none without an oracle."""
    if context.task_set.oracle is None:
        return []
    episodes = demonstrations(context.rollouts, context.task_set, _DEMONSTRATIONS, seed=context.recipe.seed)
    return [tokenise(trajectory, learner.renderer) for trajectory in episodes]


def _span(seconds: float) -> str:
    """Return a rough duration, such as "40 s", "12 min" or "3 h 20 min"."""
    rounded = timedelta(seconds=seconds)
    minutes = round(rounded / timedelta(minutes=1))
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02} min"
