"""One episode, from reset to its stop reason: token in, token out, every failure in its place.

What the agent does wrong becomes a result or a budget that ends the episode, and is scored. What the
infrastructure does wrong (sandbox, policy server, judge, a bug in a tool) is retried, from a checkpoint of
the world where there is one, and else marks the episode failed: kept, and never trained on.
"""

from __future__ import annotations

import asyncio
from typing import Any

from agentgym.environment import Checkpoint, Environment
from agentgym.errors import ContextFull, LedgerError, RewardError
from agentgym.messages import Message, Result, StopReason
from agentgym.policy.contract import Policy, Reply, Request, Sampling
from agentgym.reward import validate_components
from agentgym.rollout.budgets import BudgetUsage
from agentgym.rollout.closing import close_environment
from agentgym.rollout.judging import judge_end, verdict
from agentgym.rollout.metering import TurnMeter, spoken
from agentgym.rollout.replies import CUT, EMPTY, check_reply, over_budget
from agentgym.rollout.restored import Restored
from agentgym.rollout.schemas import tool_facts
from agentgym.rollout.setting import Setting
from agentgym.rollout.standing import Lookout
from agentgym.task import seed_of
from agentgym.trajectory import Trajectory, Turn


class Episode:
    """Plays one episode into a trajectory. Used once: `await Episode(setting, policy, trajectory).play()`."""

    def __init__(self, setting: Setting, policy: Policy, trajectory: Trajectory) -> None:
        self.trajectory = trajectory
        self._setting, self._budgets, self._policy = setting, setting.budgets, policy
        self._retries_left = setting.budgets.infra_retries
        self._doing = "starting"
        self._environment: Environment | None = None
        self._public = trajectory.task.public()

    async def play(self) -> Trajectory:
        """Play to the end. The environment is closed whatever happens, also on cancellation.

        Raises: LedgerError when a turn cannot be kept; asyncio.CancelledError, with no stop reason recorded.
        """
        trajectory, now = self.trajectory, asyncio.get_running_loop().time
        started = now()
        try:
            while True:
                try:
                    await self._attempt()
                    break
                except LedgerError:
                    raise
                except Exception as error:  # noqa: BLE001  whatever it is, it is not the agent's fault
                    if isinstance(error, RewardError) or not self._again(error):
                        self._fail(error)
                        break
                except asyncio.CancelledError as error:
                    task = asyncio.current_task()
                    if task is None or task.cancelling():
                        trajectory.stop_reason = None
                        raise
                    self._fail(RuntimeError(f"something inside was cancelled, though the episode was not: {error}"))
                    break
        finally:
            await self._close()
        if trajectory.turns:
            trajectory.turns[-1].observation_ids = []  # what came back last was never read
        trajectory.duration_s = now() - started
        return trajectory

    async def _attempt(self) -> None:
        """One try from reset to the judged outcome."""
        await self._close()
        trajectory, setting = self.trajectory, self._setting
        trajectory.turns, trajectory.prompt_ids, trajectory.outcome = [], [], {}
        trajectory.stop_reason = None
        if setting.ledger is not None:
            setting.ledger.begin(trajectory)
        self._spent = BudgetUsage()
        self._open_turn: Turn | None = None
        self._resetting = False
        self._doing = "making the environment"
        environment = self._environment = setting.make_environment(trajectory.task)
        self._reward = setting.reward_for(environment)
        trajectory.weights = self._reward.weights if self._reward is not None else {}
        kind = type(environment.world if isinstance(environment, Restored) else environment)
        trajectory.provenance["environment"] = f"{kind.__module__}.{kind.__qualname__}"
        self._meter = TurnMeter()
        self._lookout = Lookout(environment, checkpoints=self._retries_left > 0 or setting.keep is not None)
        try:
            async with asyncio.timeout(self._budgets.time_s) as limit:
                reason = await self._turns(environment)
        except TimeoutError:
            if not limit.expired():
                raise
            if self._resetting:
                raise TimeoutError(f"not ready after {self._budgets.time_s:g} s") from None
            reason = StopReason.TIME
            await self._keep_interrupted_turn()
        trajectory.stop_reason = reason
        if self._reward is not None:
            self._doing = "judging the outcome"
            if await judge_end(self._reward, trajectory, **self._patience) and setting.ledger is not None:
                setting.ledger.begin(trajectory)  # its turns are written again, with the end

    async def _turns(self, environment: Environment) -> StopReason:
        """Reset, then turn after turn until something ends the episode. Returns: why it ended."""
        trajectory, policy = self.trajectory, self._policy
        self._doing, self._resetting = "resetting the environment", True
        opening = await environment.reset(self._public, seed=trajectory.seed)
        self._resetting = False
        if used := await self._meter.read(environment):
            trajectory.provenance["reset_usage"] = used
        if digests := environment.image_digests:
            trajectory.provenance["images"] = digests
        trajectory.opening = tuple(opening)
        self._messages: list[Message] = list(opening)
        facts = tool_facts(environment.tools)
        self._tools, self._costs = facts.schemas, facts.costs
        self._prefix: list[int] | None = None
        if policy.renderer is not None:
            self._doing = "rendering the prompt"
            trajectory.prompt_ids = policy.renderer.prompt(opening, self._tools)
            self._prefix = list(trajectory.prompt_ids)
            self._end_of_turn = policy.renderer.encode(Message("assistant", ""))[-1:]
        while True:
            try:
                reason = await self._turn(len(trajectory.turns))
            except ContextFull:
                return StopReason.CONTEXT_FULL
            if reason is not None:
                return reason

    async def _turn(self, index: int) -> StopReason | None:
        """Play one turn. Returns: why the episode ends with it, None if it goes on."""
        trajectory, spent, budgets, setting = self.trajectory, self._spent, self._budgets, self._setting
        now = asyncio.get_running_loop().time
        before = await self._lookout.look(self._world, index, self._note)
        if setting.keep is not None and before.checkpoint is not None:
            setting.keep(trajectory, index, before.checkpoint)
        limit, limited_by = self._room()
        if limit <= 0:
            return limited_by
        began = now()
        reply = await self._generate(index, limit)
        replied = now()
        message = reply.message
        turn = Turn(
            index, message, message.calls, (), reply.token_ids or [], reply.logprobs or [],
            policy_version=reply.policy_version, state_key=before.state_key, potential=before.potential,
            finish_reason=reply.finish_reason, generate_s=replied - began,
        )  # fmt: skip
        turn.usage = spoken(reply, self._costs)
        self._open_turn = turn
        cut = reply.finish_reason == "length"
        try:
            answered = await self._react(turn, cut)
        except Exception as error:  # noqa: BLE001  a tool may raise anything; none of it is the agent's fault
            answered = await self._react_again(turn, before.checkpoint, cut, error)
        turn.tools_s = now() - replied
        turn.usage.update(await self._meter.read(self._world, turn.results))
        self._open_turn = None
        self._count(turn, reply)
        trajectory.turns.append(turn)
        await self._judge_turn(f"judging turn {index}", turn)
        reason: StopReason | None
        if answered:
            reason = StopReason.ANSWERED
        elif self._world.ended:
            reason = StopReason.ENVIRONMENT
        elif cut and limited_by is not None:
            reason = limited_by
        else:
            reason = spent.used_up(budgets) or self._observe(turn)
        if reason is None and setting.ledger is not None:
            await setting.ledger.write_turn(trajectory, turn)  # the last turn is written with the end
        return reason

    def _room(self) -> tuple[int, StopReason | None]:
        """How many tokens the next message may have, and which budget cuts it short, if one does."""
        limit, reason = self._budgets.max_turn_tokens, None
        if (
            self._budgets.max_episode_tokens is not None
            and self._budgets.max_episode_tokens - self._spent.tokens < limit
        ):
            limit, reason = self._budgets.max_episode_tokens - self._spent.tokens, StopReason.MAX_TOKENS
        if self._prefix is not None and self._policy.context_tokens is not None:
            left = self._policy.context_tokens - len(self._prefix)
            if left < limit:
                limit, reason = left, StopReason.CONTEXT_FULL
        return limit, reason

    async def _generate(self, index: int, limit: int) -> Reply:
        """Ask the policy, again while retries are left. Raises: PolicyError, ContextFull."""
        setting, trajectory, policy = self._setting, self.trajectory, self._policy
        base = setting.sampling
        seed = seed_of(*setting.seed_parts, trajectory.task.id, trajectory.sample, index)
        request = Request(
            tuple(self._messages), self._tools, None if self._prefix is None else tuple(self._prefix),
            Sampling(base.temperature, base.top_p, limit, seed), trajectory.id, index,
        )  # fmt: skip
        while True:
            self._doing = f"asking the policy {policy.name!r} for turn {index}"
            try:
                reply = await policy.generate(request)
                check_reply(policy, reply)
                return reply
            except ContextFull:
                raise
            except Exception as error:  # a policy may raise anything; all of it is infrastructure
                if not self._again(error):
                    raise

    async def _react(self, turn: Turn, cut: bool) -> bool:
        """Let the world react to the message. Returns: whether the message answered the task."""
        calls = turn.calls
        if len(calls) == 1 and self._spent.calls < self._budgets.max_calls:  # nearly every message: no task, no gather
            self._doing = f"running the tool {calls[0].name!r} in turn {turn.index}"
            result = await self._world.call(calls[0])
            turn.results = (result,)
            return result.final
        if calls:
            turn.results = results = tuple(await self._run_calls(turn))
            return any(result.final for result in results)
        if cut:
            turn.replies = (Message("user", CUT.format(tokens=len(turn.token_ids) or "too many")),)
        elif not turn.message.content:
            turn.replies = (Message("user", EMPTY),)
        else:
            self._doing = f"answering the agent's message of turn {turn.index}"
            turn.replies = tuple(await self._world.respond(turn.message))
            return not turn.replies and not self._world.ended
        return False

    async def _react_again(self, turn: Turn, checkpoint: Checkpoint | None, cut: bool, error: Exception) -> bool:
        """After a failure, let a fresh world react as it was before the turn. Raises: the failure, if it cannot."""
        while True:
            if checkpoint is None or self._retries_left <= 0:
                raise error
            self._retries_left -= 1
            self._note_retry(error)
            self._doing = f"restoring the checkpoint before turn {turn.index}"
            await self._close()
            self._environment = self._setting.make_environment(self.trajectory.task)
            await self._environment.restore(self._public, checkpoint, seed=self.trajectory.seed)
            try:
                return await self._react(turn, cut)
            except Exception as again:  # noqa: BLE001  as in _turn
                error = again

    async def _run_calls(self, turn: Turn) -> list[Result]:
        """Run the calls of a message concurrently. Returns: their results, in the order of the calls."""
        allowed = self._budgets.max_calls - self._spent.calls
        calls, world = turn.calls, self._world
        self._doing = f"running the tools {[call.name for call in calls]} in turn {turn.index}"
        results: list[Any] = [over_budget(call, f"all {self._budgets.max_calls} calls") for call in calls]
        turn.results = results

        async def run(position: int) -> None:
            results[position] = over_budget(calls[position], f"its {self._budgets.time_s:g} s")
            results[position] = await world.call(calls[position])

        outcomes = await asyncio.gather(*map(run, range(min(allowed, len(calls)))), return_exceptions=True)
        for call, outcome in zip(calls, outcomes, strict=False):
            if isinstance(outcome, BaseException):
                self._doing = f"running the tool {call.name!r} in turn {turn.index}"
                raise outcome
        return results

    def _count(self, turn: Turn, reply: Reply) -> None:
        """Add the turn to what is spent, and to the conversation."""
        spent = self._spent
        spent.turns += 1
        spent.calls += min(len(turn.calls), self._budgets.max_calls - spent.calls)
        understood = any(call.error is None for call in turn.calls)
        answered_by_world = not turn.calls and turn.finish_reason != "length" and bool(turn.message.content)
        spent.void_turns = 0 if understood or answered_by_world else spent.void_turns + 1
        if self._prefix is not None:
            self._prefix += turn.token_ids
            spent.tokens += len(turn.token_ids)
        else:  # a policy without token ids counts for itself, as an API does
            if turn.index == 0:
                self._first_prompt_tokens = reply.prompt_tokens
            spent.tokens = max(reply.prompt_tokens - self._first_prompt_tokens, 0) + reply.completion_tokens
            spent.tokens = max(spent.tokens, 0)

    def _observe(self, turn: Turn) -> StopReason | None:
        """Splice what came back into the conversation. Returns: the budget that leaves no room for it."""
        seen = [Message("tool", r.content, (), r.call_id, r.name) for r in turn.results]
        seen += turn.replies
        self._messages.append(turn.message)
        self._messages += seen
        renderer = self._policy.renderer
        if renderer is None or self._prefix is None:
            return None
        self._doing = f"rendering what came back in turn {turn.index}"
        ids = renderer.observation(seen)
        if turn.token_ids[-1:] != self._end_of_turn:  # cut short, or stopped at a text: the record must end it
            ids = [*self._end_of_turn, *ids]
        self._prefix += ids
        self._spent.tokens += len(ids)
        limit, reason = self._room()
        if limit <= 0:
            return reason
        turn.observation_ids = ids
        return None

    async def _judge_turn(self, doing: str, turn: Turn) -> None:
        if self._reward is not None and self._reward.has_stage("turn"):
            self._doing = doing
            reward, patience = self._reward, self._patience
            turn.rewards = dict(
                await verdict(reward, reward.turn, turn, self.trajectory, check=validate_components, **patience)
            )

    @property
    def _patience(self) -> dict[str, Any]:
        return {"time_s": self._budgets.time_s, "again": self._again}

    def _again(self, error: Exception) -> bool:
        """Whether a retry is left after this failure; if so it is noted and taken."""
        if self._retries_left <= 0:
            return False
        self._retries_left -= 1
        self._note_retry(error)
        return True

    async def _keep_interrupted_turn(self) -> None:
        """Time ran out while tools ran: the message was said, so the turn counts, its open calls do not."""
        turn, self._open_turn = self._open_turn, None
        if turn is None:
            return
        unfinished = (over_budget(call, f"its {self._budgets.time_s:g} s") for call in turn.calls)
        turn.results = tuple(turn.results or unfinished)
        turn.usage.update(await self._meter.read(self._world, turn.results))
        self.trajectory.turns.append(turn)
        await self._judge_turn("judging the last turn", turn)

    def _note(self, doing: str) -> None:
        self._doing = doing

    def _fail(self, error: Exception) -> None:
        self.trajectory.stop_reason = StopReason.INFRA_ERROR
        self.trajectory.outcome = {}
        self.trajectory.error = self._describe(error)

    def _note_retry(self, error: Exception) -> None:
        self.trajectory.provenance.setdefault("retries", []).append(self._describe(error))

    def _describe(self, error: Exception) -> str:
        return f"{type(error).__name__}: {str(error)[:2000]} (while {self._doing})"

    @property
    def _world(self) -> Environment:
        assert self._environment is not None
        return self._environment

    async def _close(self) -> None:
        environment, self._environment = self._environment, None
        if environment is not None and (note := await close_environment(environment)) is not None:
            self.trajectory.provenance["close_error"] = note
