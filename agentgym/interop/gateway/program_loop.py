"""The turns of an episode whose agent is a program: each request is a turn, a rewritten history starts a new row."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Any, NoReturn

from agentgym.cluster.served_episodes import ServerRefusal
from agentgym.environment.contract import Environment
from agentgym.errors import ContextFull, PolicyError, RequestsRefused
from agentgym.messages import Call, Message, Result, ResultStatus, StopReason
from agentgym.policy.contract import Policy
from agentgym.rollout.budgets import EpisodeOver
from agentgym.rollout.conversation import open_turn, over_budget
from agentgym.rollout.play_loop import PlayLoop
from agentgym.trajectory import Row
from agentgym.trajectory.record import Trajectory

from .auxiliary import Auxiliary
from .batch_wait import BatchWait
from .chat import Answer, AnsweredRequest, Chat, Key, answer_of, check_policy, invalid, is_call_of, key_of, keys_of
from .open_requests import OpenRequests, over_error
from .open_row import OpenRow, conversation_of, latest_row, row_of_call
from .refusals import Refusals


class ProgramLoop(PlayLoop):
    """Answers and records the requests of a program.

    Args:
        connect: entered with this loop after the environment's reset: from then on requests may arrive.
        silence_s: an episode without a request for this long ends.
        agent_has_key: whether the agent's own commands can send requests too; see Refusals.
        auxiliary_turns: whether auxiliary requests are turns; see Auxiliary.
        arguments: the arguments of PlayLoop.
    """

    def __init__(
        self,
        connect: Callable[[ProgramLoop], AbstractAsyncContextManager[None]],
        silence_s: float,
        agent_has_key: bool,
        auxiliary_turns: bool,
        *arguments: Any,
    ) -> None:
        super().__init__(*arguments)
        self._connect, self._silence_s = connect, silence_s
        self._rows: list[OpenRow] = []
        self._one_turn = asyncio.Lock()
        self._closing: set[asyncio.Future[None]] = set()
        self._over: asyncio.Future[StopReason] = asyncio.get_running_loop().create_future()
        self._requests = OpenRequests(self._over, self.end, self.fail)
        self._next_turn: asyncio.Future[None] | None = None  # awaited by `play_turn`
        self._turns_played = 0
        self.answered: dict[str, AnsweredRequest] = {}  # by the id of the answer
        self._refusals = Refusals(agent_has_key)
        self._auxiliary = Auxiliary(are_turns=auxiliary_turns, agent_has_key=agent_has_key)
        self._written = 0
        self._batch_wait = BatchWait(self._policy, self._trajectory.id)
        self._task_messages: Sequence[Message] = ()

    @property
    def opening(self) -> Sequence[Message]:
        """The environment's opening messages: the task."""
        return self._task_messages

    @property
    def tool_schemas(self) -> Sequence[dict[str, Any]]:
        """The schemas of the environment's current tools."""
        return self._contexts.read_tools(self._environment.unwrapped).schemas

    @property
    def environment(self) -> Environment:
        """The environment, inside its wrappers."""
        return self._environment.current

    @property
    def policy(self) -> Policy:
        return self._policy

    @property
    def trajectory(self) -> Trajectory:
        return self._trajectory

    @property
    def refused(self) -> RequestsRefused | None:
        """The failure of an episode whose program ends now, if its last request was refused for what we lack."""
        return None if self._refusals.last is None else self._refusals.failure()

    @property
    def has_answered(self) -> bool:
        """Whether the policy has answered a request, even one that turned out to be auxiliary: the agent has acted."""
        return bool(self.answered)

    def end(self, reason: StopReason) -> None:
        """End the episode, if it is not over."""
        if not self._over.done():
            self._over.set_result(reason)

    def fail(self, error: Exception) -> None:
        """End the attempt because the infrastructure failed."""
        if not self._over.done():
            self._over.set_exception(error)

    def note_refused(self, refused: ServerRefusal) -> None:
        """Note that a request was refused. Too many refusals end the episode: it fails, unless the agent sent them."""
        self._refusals.note(refused, has_acted=self.has_answered)
        if self._refusals.are_too_many and self._refusals.last is not None:
            self.fail(self._refusals.failure())
        elif self._refusals.are_too_many:
            self.end(StopReason.ENVIRONMENT)

    async def hand_in(self, tool: str) -> None:
        """Call the tool that hands in the files of a program that has ended. If that ends the episode, end it."""
        async with self._one_turn:
            row = latest_row(self._rows)
            if row is None or row.turn is None or self._over.done():
                return
            call = Call(tool, {}, f"own_{row.turn.index}_{len(row.executed)}")
            self._retries.doing = ("handing in the files with the tool {!r}", tool)
            result = await self._environment.current.call(call)
            row.executed.append((call, result))
            if result.final or self._environment.current.ended:
                self.end(StopReason.ANSWERED)

    def note_program(self, **data: Any) -> None:
        """Record data about the program in the provenance."""
        self._trajectory.provenance.extra["program"] = data

    async def _reset(self) -> None:
        """Reset the environment. The first request of the program begins the conversation."""
        self._task_messages = await self._open()
        self._trajectory.provenance.reset_usage = await self._environment.usage_since_last()
        self._environment.note_sandboxes(self._trajectory.provenance)

    async def play_turns(self) -> NoReturn:
        """Connect the program, and play until the episode is over.

        Raises: EpisodeOver; the error that failed the episode.
        """
        self._retries.doing = ("waiting for the program",)
        self._requests.last_at = asyncio.get_running_loop().time()
        try:
            async with self._connect(self):
                reason = await self._until_over()
        finally:
            if not self._over.done():
                self._over.cancel()
            elif not self._over.cancelled():
                self._over.exception()  # mark the exception as retrieved
            await self._requests.close()
            self._batch_wait.end()
        await self._keep_open_turn()
        if self._refusals.count:
            self._trajectory.provenance.extra["refused"] = self._refusals.described()
        if self._refusals.ended(reason):
            raise self._refusals.failure()
        if not self.has_answered and reason not in (StopReason.CONTEXT_FULL, StopReason.MAX_TOKENS):
            raise PolicyError("The program ended before it requested a message from the policy.")
        raise EpisodeOver(reason)

    async def _keep_open_turn(self, reply: str = "") -> None:
        """Record the turns that are still open when the episode is over; their observations are unknown."""
        await asyncio.gather(*self._closing)
        for row in self._rows:
            await self._close_turn(row, ())
        if self._rows and self._rows[-1].answer is None and self._trajectory.further_rows:
            self._trajectory.further_rows.pop()  # the row had no room for any message

    async def _until_over(self) -> StopReason:
        try:
            while True:
                await self.play_turn()
        except EpisodeOver as over:
            return over.reason

    async def play_turn(self) -> None:
        """Wait until the policy has written one more message for the program.

        Raises: EpisodeOver if the program ends or stops sending requests; PolicyError if it never sent one;
            the error that failed the episode.
        """
        loop = asyncio.get_running_loop()
        while self._turns_played == len(self._trajectory.turns):
            if self._over.done():
                raise EpisodeOver(self._over.result())
            left_s = self._requests.last_at + self._silence_s - loop.time()
            if left_s <= 0 and not self._requests.is_busy:
                if not self.has_answered:
                    raise PolicyError(f"The program requested nothing for {self._silence_s:g} s.")
                raise EpisodeOver(StopReason.TIME)
            self._next_turn = loop.create_future()
            awaited: list[asyncio.Future[Any]] = [self._over, self._next_turn]
            await asyncio.wait(awaited, timeout=max(left_s, 1.0), return_when=asyncio.FIRST_COMPLETED)
        self._turns_played += 1

    async def complete(self, chat: Chat) -> Answer:
        """Return the next message of a conversation. Raises: ServerRefusal."""
        answer = await self._requests.admit(self._one_after_another(chat, has_acted=self.has_answered))
        self._refusals.last = None
        return answer

    async def call(self, name: str, arguments: dict[str, Any]) -> Result:
        """Run a tool of the environment. Raises: ServerRefusal once the episode is over."""
        result = await self._requests.admit(self._run_tool(name, arguments))
        self._refusals.last = None
        return result

    async def _one_after_another(self, chat: Chat, *, has_acted: bool) -> Answer:
        async with self._one_turn:
            self._requests.check_open()
            with self._batch_wait:
                return await self._answer(chat, has_acted=has_acted)

    async def _answer(self, chat: Chat, *, has_acted: bool) -> Answer:
        await check_policy(self._policy, chat, self._trajectory.id)
        self._trajectory.provenance.extra |= {"asked_sampling": chat.asked_sampling} if chat.asked_sampling else {}
        if self._auxiliary.led_to(chat, self._rows, len(self._trajectory.turns), has_acted=has_acted):
            self._leave_out_turns()
        elif self._auxiliary.includes(chat, has_acted=has_acted):
            return await self._answer_auxiliary(chat)
        keys = keys_of(chat.messages)
        for earlier in reversed(self._rows) if chat.is_retry else ():
            if earlier.answer is not None and earlier.has_answered(keys, chat.tools):
                return earlier.answer
        row = next((row for row in reversed(self._rows) if row.continues_with(keys, chat.tools)), None)
        if row is not None:
            while row.running:  # their results belong to this turn
                await asyncio.wait(row.running)
            self._requests.check_open()
            await self._close_turn(row, chat.messages[len(row.keys) :])
        if (stop := await self._reason_to_end()) is not None:
            self.end(stop)
            raise over_error()
        return await self._take_turn(row or self._begin_row(chat, keys), chat, keys)

    def _leave_out_turns(self) -> None:
        """Leave out the turns so far, which turned out to be auxiliary."""
        trajectory, usage = self._trajectory, self._usage
        for request in self.answered.values():
            self._auxiliary.note(request)
        self._rows.clear()
        trajectory.turns.clear()
        trajectory.further_rows.clear()
        self._turns_played = usage.turns = usage.calls = usage.void_turns = 0
        trajectory.provenance.extra["auxiliary"] = self._auxiliary.record

    async def _answer_auxiliary(self, chat: Chat) -> Answer:
        """Answer an auxiliary request. Raises: ServerRefusal."""
        conversation, index = conversation_of(chat, self._policy.renderer), len(self._auxiliary.record)
        limit = self._usage.token_limit(conversation.room(self._policy.context_tokens))
        if limit.tokens <= 0:
            raise invalid(f"The episode has no tokens left for this request ({limit.reason}).")
        request = self._request(conversation, (), min(limit.tokens, chat.max_tokens or limit.tokens))
        reply = await self._ask_policy(replace(request, constraints=chat.constraints))
        self._usage.tokens += len(reply.token_ids or ())
        identity, read = f"{self._trajectory.seed:x}_auxiliary_{index}", len(conversation.prefix_ids or ())
        answer = answer_of(identity, chat, reply, read, self._policy.renderer)
        self._trajectory.provenance.extra["auxiliary"] = self._auxiliary.record
        return self._auxiliary.note(AnsweredRequest(chat, answer))

    async def _reason_to_end(self) -> StopReason | None:
        """Return why no further turn is allowed (a used-up budget or a hook); None if one is allowed."""
        if (stop := self._usage.used_up()) is None:
            await self._read_state()
        turns = self._trajectory.turns
        return await self._ask_hooks(turns[-1], stop) if turns else stop

    def _begin_row(self, chat: Chat, keys: list[Key]) -> OpenRow:
        """Return a new row. Raises: ServerRefusal if the policy's chat template cannot render its messages."""
        trajectory = self._trajectory
        self._retries.doing = ("rendering the prompt",)
        conversation = conversation_of(chat, self._policy.renderer)
        row = OpenRow(len(self._rows), conversation, chat.tools, keys)
        self._rows.append(row)
        self._ready = True  # until this point, running out of time is a failure
        if row.number == 0:
            trajectory.opening, trajectory.prompt_ids = chat.messages, list(conversation.prompt_ids)
            trajectory.tools = chat.tools
        else:
            parent = trajectory.turns[-1].index if trajectory.turns else None
            further = Row(chat.messages, list(conversation.prompt_ids), chat.tools, parent)
            trajectory.further_rows.append(further)
        return row

    async def _take_turn(self, row: OpenRow, chat: Chat, keys: list[Key]) -> Answer:
        """Let the policy write the next message of a row."""
        trajectory, usage, now = self._trajectory, self._usage, asyncio.get_running_loop().time
        limit = usage.token_limit(row.conversation.room(self._policy.context_tokens))
        if limit.tokens <= 0:
            self.end(limit.reason)
            raise over_error()
        for hook in self._hooks:
            await hook.before_turn(self._handle)
        most = min(limit.tokens, chat.max_tokens or limit.tokens)
        began = now()
        try:
            request = replace(self._request(row.conversation, row.tools, most), constraints=chat.constraints)
            reply = await self._ask_policy(request)
        except ContextFull:
            self.end(StopReason.CONTEXT_FULL)
            raise over_error() from None
        index = len(trajectory.turns)
        calls = tuple(replace(call, id=f"call_{index}_{k}") for k, call in enumerate(reply.message.calls))
        reply.message = replace(reply.message, calls=calls)
        turn = open_turn(index, reply, self._environment.state, {})
        turn.row, turn.generate_s = row.number, now() - began
        trajectory.turns.append(turn)
        if self._next_turn is not None and not self._next_turn.done():
            self._next_turn.set_result(None)
        row.allowed = max(0, self._budgets.max_calls - usage.calls)
        usage.count(turn, exact=row.conversation.prefix_ids is not None)
        identity, read = f"{trajectory.seed:x}_{index}", len(row.conversation.prefix_ids or ())
        row.answer = answer_of(identity, chat, reply, read, self._policy.renderer)
        row.turn, row.keys, row.executed = turn, [*keys, key_of(row.answer.message)], []
        self.answered[identity] = AnsweredRequest(chat, row.answer)
        if turn.finish_reason == "length" and limit.ends_episode and most == limit.tokens:
            self.end(limit.reason)
        return row.answer

    async def _run_tool(self, name: str, arguments: dict[str, Any]) -> Result:
        """Run a call of the program: for the latest policy message that contains it, else as the program's own."""
        row = row_of_call(self._rows, name, arguments)
        if row is None:
            return Result("Ask the policy for a message before you call a tool.", ResultStatus.TOOL_ERROR, name)
        assert row.turn is not None
        done = {call.id for call, _ in row.executed}
        unanswered = (call for call in row.turn.calls if call.id not in done)
        call = next((call for call in unanswered if is_call_of(call, name, arguments)), None)
        if call is None:
            call = Call(name, arguments, f"own_{row.turn.index}_{len(row.executed)}")
            if self._usage.calls >= self._budgets.max_calls:
                self.end(StopReason.MAX_CALLS)
                return over_budget(call, f"all {self._budgets.max_calls} calls")
            self._usage.calls += 1
        executed, position = row.executed, len(row.executed)
        if call in row.turn.calls[row.allowed :]:
            executed.append((call, over_budget(call, f"all {self._budgets.max_calls} calls")))
            return executed[position][1]
        executed.append((call, over_budget(call, f"its {self._budgets.time_s:g} s")))
        self._retries.doing = ("running the tool {!r} in turn {}", name, row.turn.index)
        began, request = asyncio.get_running_loop().time(), asyncio.current_task()
        assert request is not None
        row.running.add(request)
        try:
            result = await self._environment.current.call(replace(call, name=name))
        finally:
            row.running.discard(request)
        row.turn.tools_s += asyncio.get_running_loop().time() - began
        executed[position] = (call, result)
        if result.final or self._environment.current.ended:
            self.end(StopReason.ANSWERED if result.final else StopReason.ENVIRONMENT)
        return result

    async def _close_turn(self, row: OpenRow, observation: Sequence[Message]) -> None:
        """Finish a turn with `_finish_turn`, even if the current request is cancelled."""
        closing = asyncio.ensure_future(self._finish_turn(row, observation))
        self._closing.add(closing)
        closing.add_done_callback(lambda done: done.cancelled() or done.exception())  # mark as retrieved
        await asyncio.shield(closing)
        self._closing.discard(closing)

    async def _finish_turn(self, row: OpenRow, observation: Sequence[Message]) -> None:
        """Judge the last turn of a row and add its results to the conversation.

        Args:
            observation: the messages from the program; empty for the last turn of an episode.
        Raises: ServerRefusal if the policy's chat template cannot render them; any error of a reward; LedgerError.
        """
        if (turn := row.turn) is None:
            return
        if observation:
            try:
                turn.observation_ids = row.conversation.extend(turn, observation)
            except PolicyError as error:
                raise invalid(f"The policy cannot read these messages: {error}") from error
        row.turn, row.keys = None, [*row.keys, *keys_of(observation)]
        self._usage.tokens += len(turn.observation_ids)
        row.record(turn, observation)
        costs = self._contexts.read_tools(self._environment.unwrapped).costs
        if cost := sum(costs.get(call.name, 0.0) for call, _ in row.executed):
            turn.usage["cost"] = cost
        turn.usage.update(await self._environment.usage_since_last(turn.results))
        await self._judge_turn(turn)
        await self._write_turns()

    async def _write_turns(self) -> None:
        """Write finished turns to the ledger in order; the rest is written with the end."""
        trajectory, ledger = self._trajectory, self._config.ledger
        open_turns = {row.turn.index for row in self._rows if row.turn is not None}
        while ledger is not None and self._written < len(trajectory.turns) - 1 and self._written not in open_turns:
            await ledger.write_turn(trajectory, trajectory.turns[self._written])
            self._written += 1
