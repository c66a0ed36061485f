"""The turns of an episode, from reset to its stop reason, with exact token ids."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from agentgym.environment import Checkpoint
from agentgym.errors import ContextFull, PolicyLeft, SandboxExhausted
from agentgym.messages import Message, Result, StopReason
from agentgym.policy.contract import Policy, Reply, Request, Sampling
from agentgym.rollout.answers import check_messages, check_reply
from agentgym.rollout.budgets import BudgetUsage, TokenLimit
from agentgym.rollout.conversation import CUT, EMPTY, Conversation, open_turn, over_budget, tools_change
from agentgym.rollout.environments import ToolSchemas
from agentgym.rollout.episode_config import EpisodeConfig
from agentgym.rollout.judging import Judge
from agentgym.rollout.live_environment import NO_STATE, LiveEnvironment
from agentgym.rollout.retries import Retries
from agentgym.task import seed_of
from agentgym.trajectory import Row, Trajectory, Turn


class EpisodeOver(Exception):
    """Raised inside the play loop when something ends the episode."""

    def __init__(self, reason: StopReason) -> None:
        self.reason = reason


class PlayLoop:
    """The turns of one attempt at an episode, from reset to the reason that ends it."""

    def __init__(
        self,
        config: EpisodeConfig,
        policy: Policy,
        trajectory: Trajectory,
        environment: LiveEnvironment,
        judge: Judge | None,
        retries: Retries,
    ) -> None:
        self._config, self._budgets, self._policy, self._trajectory = config, config.budgets, policy, trajectory
        self._environment, self._judge, self._retries = environment, judge, retries
        self._task = trajectory.task.public()
        self._tools = ToolSchemas({}, (), {})
        self._conversation = Conversation((), (), None)
        self._usage = BudgetUsage(self._budgets)
        self._ready = False
        self._state = NO_STATE  # before the next turn
        self._open_turn: Turn | None = None  # the policy has replied, and the calls are not finished
        self._row = 0
        self._waiting: list[tuple[Conversation, Turn]] = []  # contexts that a nested one was begun in
        self._unwritten: list[Turn] = []

    async def play(self) -> StopReason:
        """Reset, then turn after turn until something ends the episode. Returns: why it ended."""
        try:
            async with asyncio.timeout(self._budgets.time_s) as limit:
                await self._reset()
                await self._read_state()
                while True:
                    await self.play_turn()
        except EpisodeOver as over:
            return over.reason
        except (ContextFull, PolicyLeft) as error:
            if not self._ready:
                raise
            return StopReason.LEFT if isinstance(error, PolicyLeft) else StopReason.CONTEXT_FULL
        except SandboxExhausted as error:
            if not (self._trajectory.turns or self._open_turn):  # the agent has not acted yet
                raise
            await self._keep_open_turn(str(error))
            return StopReason.ENVIRONMENT
        except TimeoutError:
            if not limit.expired():
                raise
            if not self._ready:
                raise TimeoutError(f"not ready after {self._budgets.time_s:g} s") from None
            await self._keep_open_turn()
            return StopReason.TIME

    async def play_turn(self) -> None:
        """One turn: let the policy reply, run its calls, judge, read the state, and add what came back.

        Raises: EpisodeOver when the turn ends the episode, or no budget is left for it or for the next one.
        """
        trajectory, usage, now, state = self._trajectory, self._usage, asyncio.get_running_loop().time, self._state
        limit = usage.token_limit(self._conversation.room(self._policy.context_tokens))
        if limit.tokens <= 0:
            raise EpisodeOver(limit.reason)
        began = now()
        reply = await self._generate(limit.tokens)
        replied = now()
        turn = self._open_turn = open_turn(len(trajectory.turns), reply, state, self._tools.costs)
        turn.generate_s, turn.role = replied - began, self._role
        turn.row = self._row
        try:
            is_answer = await self._respond(turn)
        except SandboxExhausted:  # the agent's doing
            raise
        except Exception as error:  # noqa: BLE001  a tool may raise anything; none of it is the agent's fault
            is_answer = await self._respond_again(turn, state.checkpoint, error)
        turn.tools_s = now() - replied
        turn.usage.update(await self._environment.usage_since_last(turn.results))
        if cost := sum(result.usage.get("cost", 0.0) for result in turn.results):
            turn.usage["cost"] = turn.usage.get("cost", 0.0) + cost
        self._open_turn = None
        usage.count(turn, reply, exact=self._conversation.prefix_ids is not None)
        trajectory.turns.append(turn)
        await self._judge_turn(turn)
        if (reason := self._reason_to_stop(turn, limit, is_answer) or await self._read_state()) is not None:
            if not await self._begin_attempt(turn, reason):
                raise EpisodeOver(reason)
            await self._read_state()
        if not self._change_context(turn):
            self._announce_tools(turn)
            self._observe(turn)
        await self._write(turn)

    async def _read_state(self) -> StopReason | None:
        """Read the state before the next turn. Returns: HOPELESS if a stop rule ends the attempt before it."""
        trajectory = self._trajectory
        self._state = await self._environment.read_state(trajectory.turns, self._retries.note)
        self._config.keep_checkpoint(trajectory, self._state.checkpoint)
        start = 0 if self._judge is None else self._judge.attempt_start
        hopeless = self._config.is_hopeless(trajectory, self._state, self._environment, start)
        return StopReason.HOPELESS if await hopeless else None

    def _reason_to_stop(self, turn: Turn, limit: TokenLimit, is_answer: bool) -> StopReason | None:
        if is_answer:
            return StopReason.ANSWERED
        if self._environment.current.ended:
            return StopReason.ENVIRONMENT
        if turn.finish_reason == "length" and limit.ends_episode:
            return limit.reason
        return self._usage.used_up()

    async def _begin_attempt(self, turn: Turn, reason: StopReason) -> bool:
        """Begin another attempt in a fresh environment, if the episode has one left. Returns: whether it had."""
        trajectory = self._trajectory
        if self._judge is None or not reason.ends_attempt or self._usage.used_up():
            return False
        self._retries.activity = f"judging the attempt that turn {turn.index} ended"
        if (feedback := await self._judge.end_attempt(trajectory, reason)) is None:
            return False
        close_error = await self._environment.renew(lambda: self._config.environments.make(trajectory.task))
        trajectory.provenance.close_error = close_error or trajectory.provenance.close_error
        self._judge.reward = self._config.reward_for(self._environment.current) or self._judge.reward
        opening, trajectory.provenance.hopeless = await self._open(), None
        if trajectory.further_rows:  # its first context, once more
            self._waiting.clear()
            self._environment.current.unwrapped.begin_context([*opening, Message("user", feedback)])
            return True
        changed = () if opening == list(trajectory.opening) else opening
        turn.replies = (*turn.replies, Message("user", feedback), *changed)
        return True

    async def _open(self) -> list[Message]:
        """Reset the environment. Returns: its opening messages."""
        trajectory = self._trajectory
        self._retries.activity = "resetting the environment"
        return await self._environment.reset(self._task, trajectory.seed, trajectory.provenance)

    async def _reset(self) -> None:
        """Reset the environment and begin the conversation."""
        trajectory, environment, policy = self._trajectory, self._environment, self._policy
        opening = await self._open()
        self._ready, trajectory.opening = True, tuple(opening)
        trajectory.provenance.reset_usage = await environment.usage_since_last()
        trajectory.provenance.image_digests = environment.current.image_digests
        self._retries.activity = "rendering the prompt"
        self._conversation = Conversation(opening, self._read_tools().schemas, policy.renderer)
        trajectory.prompt_ids = self._conversation.prompt_ids
        if self._tools.tools is not type(environment.current.unwrapped).tools:
            trajectory.tools = self._tools.schemas

    def _change_context(self, turn: Turn) -> bool:
        """Go on in another row, where the environment has begun or ended a context. Returns: whether it has.

        Raises: EpisodeOver when what is read there leaves no room for a reply.
        """
        if (change := self._environment.current.unwrapped.take_context_change()) is None:
            return False
        tools = self._read_tools().schemas
        if not change.opening:
            if not self._waiting:
                raise RuntimeError(f"end_context was called in turn {turn.index}, and no context waits for this one.")
            self._conversation, waiting = self._waiting.pop()
            self._row, results = waiting.row, change.results
            waiting.results = tuple(
                replace(r, content=results.get(r.call_id, r.content)) if r.ok else r for r in waiting.results
            )
            self._observe(waiting)
            return True
        self._retries.activity = f"rendering the context that follows turn {turn.index}"
        if change.nested:
            self._waiting.append((self._conversation, turn))
        parent = self._waiting[-1][1] if self._waiting else turn
        row = Row(change.opening, tools=tools, parent=parent.index)
        self._conversation = Conversation(change.opening, tools, self._policy.renderer)
        row.prompt_ids = self._conversation.prompt_ids
        self._count(row.prompt_ids)
        self._trajectory.further_rows.append(row)
        self._row = len(self._trajectory.further_rows)
        return True

    async def _write(self, turn: Turn) -> None:
        """Keep a turn in the ledger; one that waits, and those after it, once it is known what it has come to.

        The last turn is written with the end.
        """
        self._unwritten.append(turn)
        if self._config.ledger is not None and not self._waiting:
            for finished in self._unwritten:
                await self._config.ledger.write_turn(self._trajectory, finished)
            self._unwritten.clear()

    def _announce_tools(self, turn: Turn) -> None:
        """Add a message to the turn if the tools have changed in it."""
        before = self._tools.schemas
        if (after := self._read_tools().schemas) is not before and (text := tools_change(before, after)):
            turn.replies = (*turn.replies, Message("user", text))

    @property
    def _role(self) -> str:
        """The role that the agent has now: the environment's, or that of what helps it."""
        helped = self._trajectory.provenance.assistance
        return self._environment.current.unwrapped.role or ("" if helped is None else helped.role)

    def _read_tools(self) -> ToolSchemas:
        """The tools as they are now: an environment may add and remove some during an episode."""
        environment = self._environment.current.unwrapped
        if environment.tools is not self._tools.tools:
            self._tools = self._config.environments.tool_schemas(environment)
        return self._tools

    async def _generate(self, max_tokens: int) -> Reply:
        """Ask the policy, and again while retries are left. Raises: PolicyError, ContextFull."""
        config, trajectory, policy, conversation = self._config, self._trajectory, self._policy, self._conversation
        index, prefix_ids = len(trajectory.turns), conversation.prefix_ids
        seed = seed_of(*config.seed_parts, trajectory.task.id, trajectory.sample, index)
        request = Request(
            tuple(conversation.messages),
            self._read_tools().schemas,
            None if prefix_ids is None else tuple(prefix_ids),
            Sampling(config.temperature, config.top_p, max_tokens, seed),
            trajectory.id,
            index,
            self._role,
        )
        while True:
            self._retries.activity = f"asking the policy {policy.name!r} for turn {index}"
            try:
                reply = await policy.generate(request)
                check_reply(policy, reply)
                return reply
            except (ContextFull, PolicyLeft):
                raise
            except Exception as error:  # a policy may raise anything; all of it is infrastructure
                if not self._retries.take(error):
                    raise

    async def _respond(self, turn: Turn) -> bool:
        """Run the calls of a message, or answer it where it holds none. Returns: whether it answered the task."""
        environment, calls = self._environment.current, turn.calls
        if len(calls) == 1 and self._usage.calls < self._budgets.max_calls:  # nearly every message
            self._retries.activity = f"running the tool {calls[0].name!r} in turn {turn.index}"
            result = await environment.call(calls[0])
            turn.results = (result,)
            return result.final
        if calls:
            results = turn.results = tuple(await self._run_calls(turn))
            return any(result.final for result in results)
        if turn.finish_reason == "length":
            turn.replies = (Message("user", CUT.format(tokens=len(turn.token_ids) or "too many")),)
        elif not turn.message.content:
            turn.replies = (Message("user", EMPTY),)
        else:
            self._retries.activity = f"answering the agent's message of turn {turn.index}"
            replies = await environment.respond(turn.message)
            check_messages(replies, environment.unwrapped.respond, "return [] to end the episode")
            turn.replies = tuple(replies)
            return not (turn.replies or environment.ended or environment.unwrapped.changes_context)
        return False

    async def _respond_again(self, turn: Turn, checkpoint: Checkpoint | None, error: Exception) -> bool:
        """After a failure, let a fresh environment respond that is put back to the checkpoint before the turn.

        Raises: the failure, if there is no checkpoint or no retry is left; what restoring raises.
        """
        while True:
            if checkpoint is None or not self._retries.take(error):
                raise error
            self._retries.activity = f"restoring the checkpoint before turn {turn.index}"
            close_error = await self._environment.restore(self._task, checkpoint, seed=self._trajectory.seed)
            if close_error is not None:
                self._trajectory.provenance.close_error = close_error
            try:
                return await self._respond(turn)
            except Exception as next_error:  # noqa: BLE001  as in play_turn
                error = next_error

    async def _run_calls(self, turn: Turn) -> list[Result]:
        """Run the calls of a message concurrently. Returns: their results, in the order of the calls."""
        budgets, calls, environment = self._budgets, turn.calls, self._environment.current
        allowed = calls[: budgets.max_calls - self._usage.calls]
        self._retries.activity = f"running the tools {[call.name for call in calls]} in turn {turn.index}"
        results: list[Any] = [over_budget(call, f"all {budgets.max_calls} calls") for call in calls]
        turn.results = results

        async def run(position: int) -> None:
            results[position] = over_budget(calls[position], f"its {budgets.time_s:g} s")
            results[position] = await environment.call(calls[position])

        outcomes = await asyncio.gather(*map(run, range(len(allowed))), return_exceptions=True)
        for call, outcome in zip(allowed, outcomes, strict=True):
            if isinstance(outcome, BaseException):
                self._retries.activity = f"running the tool {call.name!r} in turn {turn.index}"
                raise outcome
        return results

    def _observe(self, turn: Turn) -> None:
        """Add the turn to the conversation. Raises: EpisodeOver when what came back leaves no room for a reply."""
        self._retries.activity = f"rendering what came back in turn {turn.index}"
        observation_ids = self._conversation.append(turn)
        if self._conversation.prefix_ids is None:  # what came back counts with the next reply
            return
        self._count(observation_ids)
        turn.observation_ids = observation_ids

    def _count(self, read_ids: list[int]) -> None:
        """Count tokens that the policy reads next. Raises: EpisodeOver when they leave no room for a reply."""
        self._usage.tokens += len(read_ids)
        limit = self._usage.token_limit(self._conversation.room(self._policy.context_tokens))
        if limit.tokens <= 0:
            raise EpisodeOver(limit.reason)

    async def _keep_open_turn(self, reply: str = "") -> None:
        """Record the turn in which the episode broke off, for want of time or as `reply` says; open calls are cut."""
        turn, self._open_turn = self._open_turn, None
        if turn is None:
            return
        if reply and not turn.calls:
            turn.replies = (Message("user", reply),)
        unfinished = (over_budget(call, f"its {self._budgets.time_s:g} s") for call in turn.calls)
        turn.results = tuple(turn.results or unfinished)
        turn.usage.update(await self._environment.usage_since_last(turn.results))
        self._trajectory.turns.append(turn)
        await self._judge_turn(turn)

    async def _judge_turn(self, turn: Turn) -> None:
        if self._judge is not None:
            self._retries.activity = f"judging turn {turn.index}"
            await self._judge.judge_turn(turn, self._trajectory)
