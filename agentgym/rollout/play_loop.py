"""The turns of an episode, from reset to its stop reason, with exact token ids."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, NoReturn

from agentgym.environment.contexts import changes_context
from agentgym.errors import ContextFull, PolicyLeft, SandboxExhausted
from agentgym.messages import Message, Result, StopReason
from agentgym.policy.contract import Policy, Reply, Request, Sampling
from agentgym.reward import SUCCESS
from agentgym.rollout.budgets import BudgetUsage, EpisodeOver, TokenLimit
from agentgym.rollout.checks import check_messages, check_reply
from agentgym.rollout.clock import EpisodeClock
from agentgym.rollout.contexts import Contexts
from agentgym.rollout.conversation import CUT, EMPTY, FILTERED, Attempt, Conversation, open_turn, over_budget
from agentgym.rollout.environment_handle import EnvironmentHandle
from agentgym.rollout.episodes import EpisodeConfig, TurnRecord
from agentgym.rollout.failures import Retries
from agentgym.rollout.hooks import EpisodeHandle, EpisodeHook
from agentgym.rollout.judging import Judge
from agentgym.task.definition import seeds_of
from agentgym.trajectory import EndState
from agentgym.trajectory.record import Trajectory
from agentgym.trajectory.turn import Turn


class PlayLoop:
    """Asks the policy, runs its calls, judges the turn, and shows the policy the results, until the episode ends.

    Args:
        environment: a fresh environment, not yet reset.
    """

    def __init__(
        self,
        config: EpisodeConfig,
        policy: Policy,
        trajectory: Trajectory,
        environment: EnvironmentHandle,
        retries: Retries,
    ) -> None:
        self._config, self._budgets, self._policy, self._trajectory = config, config.budgets, policy, trajectory
        self._environment, self._retries = environment, retries
        self._task = trajectory.task
        self._seed = seeds_of(*config.seed_parts, trajectory.task.id, trajectory.sample)
        self._usage = BudgetUsage(self._budgets)
        self._clock = EpisodeClock(self._budgets.time_s, self._budgets.reply_s)
        self._contexts = Contexts(trajectory, policy, self._usage, config.environments, retries)
        self._added_role = next((added.role for added in trajectory.provenance.additions if added.role), "")
        self._attempt: Attempt | None = None
        self._ready = False
        self._open_turn: Turn | None = None  # the policy has replied, but the calls are not finished
        self._hooks: tuple[EpisodeHook, ...] = ()
        if config.hooks:
            self._hooks = tuple(hook.for_episode() for hook in config.hooks)
            self._handle = EpisodeHandle(trajectory, environment, self._usage, retries, config.fork)
        self._judge = self._make_judge()

    def _make_judge(self) -> Judge | None:
        config = self._config
        reward = config.reward_for(self._environment.current)
        self._trajectory.weights = reward.weights if reward is not None else {}
        if reward is None:
            return None
        judge = Judge(reward, config.budgets.time_s, self._retries.take, config.added_weights)
        for hook in self._hooks:
            judge = hook.wrap_judge(judge)
        return judge

    async def play(self) -> StopReason:
        """Reset the environment and play the episode. Returns: why it ended."""
        try:
            with self._clock:
                await self._reset()
                await self._read_state()
                await self.play_turns()
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
            if not self._clock.expired:
                raise
            if not self._ready:
                raise TimeoutError(f"the environment was not ready after {self._budgets.time_s:g} s") from None
            await self._keep_open_turn()
            return StopReason.TIME

    async def play_turns(self) -> NoReturn:
        """Play one turn after another. Raises: EpisodeOver when a turn ends the episode."""
        while True:
            await self.play_turn()

    async def play_turn(self) -> None:
        """Play one turn.

        1. Let the hooks inspect the episode, and ask the policy for a message within the budgets.
        2. Run the message's calls, or let the environment answer the message.
        3. Judge the turn.
        4. Read the state, unless the turn ended the episode.
        5. Let the hooks inspect the turn: they may end the episode, or continue it.
        6. Show the policy the results.
        7. Write the turn to the ledger. The last turn of an episode is written with the episode's end.

        Raises: EpisodeOver when the turn ends the episode, or no budget is left for this turn or the next.
        """
        limit = self._contexts.token_limit()
        for hook in self._hooks:
            await hook.before_turn(self._handle)
        request = self._next_request(limit)
        turn = self._begin_turn(request, await self._ask_policy(request))
        is_answer = await self._act(turn)
        await self._judge_turn(turn)
        stop = self._reason_to_stop(turn, limit, is_answer)
        if stop is None and self._environment.has_state:
            await self._read_state()
        if self._hooks:
            stop = await self._ask_hooks(turn, stop)
        if stop is not None:
            raise EpisodeOver(stop)
        self._contexts.show(turn, self._environment.unwrapped)
        if self._config.ledger is not None:
            await self._write(turn, self._config.ledger)

    async def conclude(self) -> None:
        """Read the end state of an ended episode, if wanted, and judge the outcome."""
        config, trajectory, retries = self._config, self._trajectory, self._retries
        for hook in self._hooks:
            await hook.after_episode(self._handle)
        if config.end_state:
            state = await self._environment.read_end_state(trajectory.turns, retries.note, config.budgets.time_s)
            trajectory.end_state = EndState(state.state_key, state.potential)
            config.keep_checkpoint(trajectory, state.checkpoint)
        # there was no room for a turn, so there is nothing to judge
        if self._judge is not None and not trajectory.turns:
            trajectory.outcome = {SUCCESS: 0.0}
        elif self._judge is not None:
            retries.doing = ("judging the outcome",)
            if await self._judge.judge_end(trajectory) and config.ledger is not None:
                # their rewards have changed, so turns are written again, together with the end
                config.ledger.begin(trajectory)

    async def _reset(self) -> None:
        """Reset the environment and begin the conversation."""
        trajectory, environment = self._trajectory, self._environment
        opening = await self._open()
        self._ready, trajectory.opening = True, tuple(opening)
        trajectory.provenance.reset_usage = await environment.usage_since_last()
        environment.note_sandboxes(trajectory.provenance)
        self._retries.doing = ("rendering the prompt",)
        self._contexts.open(opening, environment.unwrapped)

    async def _open(self) -> list[Message]:
        """Reset the environment. Returns: its opening messages."""
        trajectory = self._trajectory
        self._retries.doing = ("resetting the environment",)
        return await self._environment.reset(self._task, trajectory.seed, trajectory.provenance.additions)

    async def _read_state(self) -> None:
        """Read the state before the next turn."""
        state = await self._environment.read_state(self._trajectory.turns, self._retries.note)
        if state.checkpoint is not None:
            self._config.keep_checkpoint(self._trajectory, state.checkpoint)

    def _next_request(self, limit: TokenLimit) -> Request:
        """Return the request for the next message of the current context."""
        contexts, environment = self._contexts, self._environment.unwrapped
        schemas, role = contexts.read_tools(environment).schemas, environment.role or self._added_role
        return self._request(contexts.current, schemas, limit.tokens, role)

    def _begin_turn(self, request: Request, reply: Reply) -> Turn:
        """Return the turn that the policy's reply begins."""
        contexts = self._contexts
        turn = self._open_turn = open_turn(request.turn, reply, self._environment.state, contexts.tools.costs)
        turn.generate_s, turn.role, turn.row = self._clock.sampling.took_s, request.role, contexts.row
        return turn

    def _request(
        self, conversation: Conversation, tools: Sequence[dict[str, Any]], max_tokens: int, role: str = ""
    ) -> Request:
        """Return the request to continue a conversation."""
        config, trajectory = self._config, self._trajectory
        index, prefix_ids = len(trajectory.turns), conversation.prefix_ids
        start, attempt = (0, None) if self._attempt is None else self._attempt.at(conversation, index)
        return Request(
            tuple(conversation.messages),
            tools,
            None if prefix_ids is None else tuple(prefix_ids),
            Sampling(config.temperature, config.top_p, max_tokens, self._seed(index)),
            trajectory.id,
            index,
            role,
            start,
            attempt,
        )

    async def _ask_policy(self, request: Request) -> Reply:
        """Ask the policy; retry failures while retries are left. Raises: PolicyError, ContextFull, PolicyLeft."""
        policy = self._policy
        self._clock.sampling.took_s = 0.0
        while True:
            self._retries.doing = ("asking the policy {!r} for turn {}", policy.name, request.turn)
            try:
                with self._clock.sampling:
                    reply = await policy.generate(request)
                check_reply(policy, reply)
                return reply
            except (ContextFull, PolicyLeft):
                raise
            except Exception as error:  # a policy may raise anything; all of it is infrastructure
                is_late = isinstance(error, TimeoutError) and self._clock.sampling.expired
                failure = policy.no_reply_in(self._budgets.reply_s) if is_late else error
                if self._retries.take(failure):
                    continue
                if failure is error:
                    raise
                raise failure from error

    async def _act(self, turn: Turn) -> bool:
        """Run the calls of a turn, or let the environment answer the message, and record the turn with its usage.

        After a failure, retry in a fresh environment restored to the checkpoint before the turn.
        Returns: whether the turn answered the task.
        Raises: SandboxExhausted; the failure, without a checkpoint or a retry that is left.
        """
        calls, clock = turn.calls, self._clock
        while True:
            try:
                if len(calls) == 1 and self._usage.calls < self._budgets.max_calls:  # nearly every message
                    self._retries.doing = ("running the tool {!r} in turn {}", calls[0].name, turn.index)
                    result = await self._environment.current.call(calls[0])
                    turn.results, is_answer = (result,), result.final
                elif calls:
                    turn.results = tuple(await self._run_calls(turn))
                    is_answer = any(result.final for result in turn.results)
                else:
                    is_answer = await self._respond(turn)
                break
            except SandboxExhausted:  # caused by the agent
                raise
            except Exception as error:  # noqa: BLE001  a tool may raise anything; none of it is the agent's fault
                await self._restore(turn, error)
        turn.tools_s = clock.loop.time() - clock.sampling.ended
        if self._environment.is_metered():
            turn.usage.update(await self._environment.usage_since_last(turn.results))
        for result in turn.results:
            if cost := result.usage.get("cost"):
                turn.usage["cost"] = turn.usage.get("cost", 0.0) + cost
        self._open_turn = None
        self._usage.count(turn, exact=self._contexts.current.prefix_ids is not None)
        self._trajectory.turns.append(turn)
        return is_answer

    async def _respond(self, turn: Turn) -> bool:
        """Reply to a message without calls. Returns: whether the message answered the task."""
        environment = self._environment.current
        if turn.finish_reason == "length":
            turn.replies = (Message("user", CUT.format(tokens=len(turn.token_ids) or "too many")),)
        elif turn.finish_reason == "content_filter":
            turn.replies = (Message("user", FILTERED),)
        elif not turn.message.speaks:
            turn.replies = (Message("user", EMPTY),)
        else:
            self._retries.doing = ("answering the agent's message of turn {}", turn.index)
            replies = await environment.respond(turn.message.spoken())
            check_messages(replies, self._environment.unwrapped.respond, "return [] to end the episode")
            turn.replies = tuple(replies)
            return not (turn.replies or environment.ended or changes_context(environment))
        return False

    async def _restore(self, turn: Turn, error: Exception) -> None:
        """Continue in a fresh environment restored to the checkpoint before the turn.

        Raises: `error`, without a checkpoint or a retry that is left; what restoring raises.
        """
        checkpoint = self._environment.state.checkpoint
        if checkpoint is None or not self._retries.take(error):
            raise error
        self._retries.doing = ("restoring the checkpoint before turn {}", turn.index)
        close_error = await self._environment.restore(self._task, checkpoint, seed=self._trajectory.seed)
        if close_error is not None:
            self._trajectory.provenance.close_error = close_error

    async def _run_calls(self, turn: Turn) -> list[Result]:
        """Run the calls of a message concurrently. Returns: their results, in the order of the calls."""
        budgets, calls, environment = self._budgets, turn.calls, self._environment.current
        allowed = calls[: budgets.max_calls - self._usage.calls]
        self._retries.doing = ("running the tools {} in turn {}", [call.name for call in calls], turn.index)
        results: list[Any] = [over_budget(call, f"all {budgets.max_calls} calls") for call in calls]
        turn.results = results

        async def run(position: int) -> None:
            results[position] = over_budget(calls[position], f"its {budgets.time_s:g} s")
            results[position] = await environment.call(calls[position])

        outcomes = await asyncio.gather(*map(run, range(len(allowed))), return_exceptions=True)
        for call, outcome in zip(allowed, outcomes, strict=True):
            if isinstance(outcome, BaseException):
                self._retries.doing = ("running the tool {!r} in turn {}", call.name, turn.index)
                raise outcome
        return results

    def _reason_to_stop(self, turn: Turn, limit: TokenLimit, is_answer: bool) -> StopReason | None:
        if is_answer:
            return StopReason.ANSWERED
        if self._environment.current.ended:
            return StopReason.ENVIRONMENT
        if turn.finish_reason == "length" and limit.ends_episode:
            return limit.reason
        return self._usage.used_up()

    async def _ask_hooks(self, turn: Turn, stop: StopReason | None) -> StopReason | None:
        """Let each hook in turn decide how the episode continues. Returns: the stop reason; None to continue."""
        messages: list[Message] = []
        renew = False
        for hook in self._hooks:
            outcome = await hook.after_turn(self._handle, turn, stop)
            stop, renew = outcome.stop, renew or outcome.renew
            messages += outcome.messages
        if renew and stop is None:
            await self._renew_environment(turn, messages)
        elif messages:
            turn.replies = (*turn.replies, *messages)
        return stop

    async def _renew_environment(self, turn: Turn, messages: list[Message]) -> None:
        """Let the agent continue in a fresh environment, and read `messages` there."""
        config, trajectory, environment = self._config, self._trajectory, self._environment
        begins = len(trajectory.turns)
        close_error = await environment.renew(lambda: config.make_environment(trajectory.task, begins))
        trajectory.provenance.close_error = close_error or trajectory.provenance.close_error
        if self._judge is not None and (reward := config.reward_for(environment.current)) is not None:
            self._judge.replace_reward(reward)
        opening = await self._open()
        self._handle.start = len(trajectory.turns)
        self._attempt = Attempt(len(trajectory.turns), tuple(opening))
        if trajectory.further_rows:  # return to the first context
            self._contexts.restart([*opening, *messages])
        else:
            changed = () if opening == list(trajectory.opening) else opening
            turn.replies = (*turn.replies, *messages, *changed)
        await self._read_state()

    async def _write(self, turn: Turn, ledger: TurnRecord) -> None:
        """Write to the ledger the turns whose results can no longer change: none while a nested context is open."""
        for settled in self._contexts.settle(turn):
            await ledger.write_turn(self._trajectory, settled)

    async def _keep_open_turn(self, reply: str = "") -> None:
        """Record the unfinished turn of an episode that ran out of time, or whose sandbox the agent exhausted.

        Unfinished calls get an over-budget result. `reply`: the answer to a turn without calls; empty for none.
        """
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
            self._retries.doing = ("judging turn {}", turn.index)
            await self._judge.judge_turn(turn, self._trajectory)
