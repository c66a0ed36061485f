"""Errors of one line in the play of episodes, each of which some test of this folder must notice."""

from __future__ import annotations

from mutants import Mutant, mutant_tests

LOOP, HANDLE, JUDGING = "rollout/play_loop.py", "rollout/environment_handle.py", "rollout/judging.py"
BUDGETS, CONTEXTS, CONVERSATION = "rollout/budgets.py", "rollout/contexts.py", "rollout/conversation.py"
REPLAY, GROUPS, CLOCK = "rollout/replay.py", "rollout/group_rewards.py", "rollout/clock.py"
PIN, STOPS, EPISODE = "rollout/test_loop_semantics.py", "rollout/test_budget_stops.py", "rollout/test_episode.py"
BRANCH, GROUP, BROKEN = "rollout/test_branch.py", "rollout/test_group_rewards.py", "rollout/test_infrastructure.py"
ROWS, EXACT = "rollout/test_contexts.py", "rollout/test_token_exactness.py"

MUTANTS = [
    Mutant(CONTEXTS, "if limit.tokens <= 0:", "if limit.tokens < 0:", PIN),
    Mutant(LOOP, "turn.tools_s = clock.loop.time() - clock.sampling.ended", "turn.tools_s = clock.loop.time()", PIN),
    Mutant(LOOP, "self._clock.sampling.took_s = 0.0", "pass", PIN),
    Mutant(LOOP, "close_error = close_error or trajectory.", "close_error = trajectory.", PIN),
    Mutant(REPLAY, "reply.version_changes = recorded.version_changes", "pass", PIN),
    Mutant(REPLAY, "reply.policy_version = recorded.policy_version", "pass", PIN),
    Mutant(CLOCK, "math.inf, clock.ends + took_s", "math.inf, clock.ends", STOPS),
    Mutant(CLOCK, "limit = self if self.sampling.ends == math.inf else self.sampling", "limit = self", STOPS),
    Mutant(CLOCK, "if clock.ends < clock.goes_off:", "if clock.ends > clock.goes_off:", STOPS),
    Mutant(BUDGETS, "self.void_turns + 1 if says_nothing", "self.void_turns if says_nothing", STOPS),
    Mutant(BUDGETS, "if self.turns >= budgets.max_turns", "if self.turns > budgets.max_turns", STOPS),
    Mutant(BUDGETS, "if self.calls >= budgets.max_calls", "if self.calls > budgets.max_calls", STOPS),
    Mutant(BUDGETS, "max_episode_tokens - self.tokens < limit", "max_episode_tokens < limit", STOPS),
    Mutant(BUDGETS, "max(prompt_tokens - self._first_prompt_tokens, 0)", "prompt_tokens", STOPS),
    Mutant(LOOP, "calls[: budgets.max_calls - self._usage.calls]", "calls[: budgets.max_calls]", STOPS),
    Mutant(LOOP, 'turn.finish_reason == "length" and limit.ends_episode', 'turn.finish_reason == "length"', STOPS),
    Mutant(
        LOOP,
        "return over.reason\n        except (ContextFull",
        "return StopReason.MAX_TURNS\n        except (ContextFull",
        STOPS,
    ),
    Mutant(
        LOOP,
        "if self._retries.take(failure):\n                    continue",
        "if self._retries.take(error):\n                    continue",
        STOPS,
    ),
    Mutant(LOOP, "turn.results = tuple(turn.results or unfinished)", "turn.results = tuple(turn.results)", STOPS),
    Mutant(
        LOOP,
        "if is_answer:\n            return StopReason.ANSWERED",
        "if False:\n            return StopReason.ANSWERED",
        EPISODE,
    ),
    Mutant(LOOP, "trajectory.id,\n            index,", "trajectory.id,\n            0,", EPISODE),
    Mutant(LOOP, "trajectory.task.id, trajectory.sample)", "trajectory.task.id)", EPISODE),
    Mutant(
        LOOP,
        "outcomes = await asyncio.gather(*map(run, range(len(allowed))), return_exceptions=True)",
        "outcomes = [await run(position) for position in range(len(allowed))]",
        EPISODE,
    ),
    Mutant(LOOP, "elif not turn.message.speaks:", "elif turn.message.speaks:", EPISODE),
    Mutant(LOOP, 'turn.usage["cost"] = turn.usage.get("cost", 0.0) + cost', 'turn.usage["cost"] = cost', EPISODE),
    Mutant(LOOP, "if stop is None and self._environment.has_state:", "if stop is None and False:", EPISODE),
    Mutant(CONVERSATION, 'usage["cost"] = cost', "pass", EPISODE),
    Mutant(CONVERSATION, "self.prefix_ids += turn.token_ids\n", "pass\n", EPISODE),
    Mutant(CONVERSATION, "if turn.token_ids[-1:] != self._end_of_turn:", "if False:", STOPS),
    Mutant(HANDLE, "if potential is not None and not math.isfinite(potential):", "if False:", EPISODE),
    Mutant(HANDLE, "await self.current.restore(task.public(), checkpoint, seed=seed)", "pass", BROKEN),
    Mutant(HANDLE, "if reported.get(name, 0) > counts.get(name, 0):", "if False:", "rollout/test_turn_usage.py"),
    Mutant(LOOP, "if not (self._trajectory.turns or self._open_turn):", "if False:", BROKEN),
    Mutant(JUDGING, "if not self._retry(failure):", "if True:", BROKEN),
    Mutant(
        JUDGING,
        "if shared := earlier.keys() & later.keys():",
        "if shared := earlier.keys() - earlier.keys():",
        "methods/test_attempts.py rollout/test_group_rewards.py rollout/test_hooks.py",
    ),
    Mutant(JUDGING, "turn.rewards = self.merge(turn.rewards, components)", "turn.rewards = dict(components)", GROUP),
    Mutant(JUDGING, "return in_hindsight or names_spans", "return names_spans", GROUP),
    Mutant(GROUPS, "number = job.position // self._group_size", "number = job.position % self._group_size", GROUP),
    Mutant(GROUPS, "group.jobs.sort(key=lambda job: job.position)", "pass", GROUP),
    Mutant(GROUPS, "valid = [trajectory for trajectory in group if trajectory.valid]", "valid = list(group)", GROUP),
    Mutant(GROUPS, "return retries_left >= 0", "return retries_left >= 1", GROUP),
    Mutant(CONTEXTS, "self._count(row.prompt_ids)", "pass", ROWS),
    Mutant(REPLAY, "if recorded.index < turns and (expected", "if recorded.index <= turns and (expected", BRANCH),
    Mutant(
        REPLAY,
        "while (fork := trajectory.provenance.branch) is not None and turn < fork.turn",
        "while (fork := trajectory.provenance.branch) is not None and turn <= fork.turn",
        BRANCH,
    ),
    Mutant(
        REPLAY, "if recorded.state_key is not None and recorded.state_key != replayed.state_key:", "if False:", BRANCH
    ),
    Mutant(
        REPLAY,
        "if turn == self.fork.turn:\n            return",
        "if turn == self.fork.turn + 1:\n            return",
        BRANCH,
    ),
    Mutant("rollout/prompt.py", "if opening[0].text.startswith(text):", "if False:", "rollout/test_instruction.py"),
    Mutant("rollout/workers/slots.py", "self._free -= 1", "self._free -= 0", "rollout/test_manager.py"),
]

mutated, test_the_tests_pass_on_the_copy, test_an_error_of_one_line_is_caught = mutant_tests(MUTANTS, always=0)
