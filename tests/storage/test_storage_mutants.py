"""Errors of one line in the record on disk, each of which some test of this folder must notice."""

from __future__ import annotations

from mutants import Mutant, mutant_tests

LEDGER, CODEC, DIGESTS, SUMMARY = "storage/ledger.py", "storage/codec.py", "storage/digests.py", "storage/summary.py"
LOADING, JOURNAL = "storage/loading.py", "storage/journal.py"
STORED, EVERY_TURN = "storage/test_ledger.py", "storage/test_codec.py::test_every_turn_comes_back_equal_bit_by_bit"
ZERO = "storage/test_codec.py::test_a_value_and_a_potential_of_zero_are_not_none"
AS_JSON = "storage/test_codec.py::test_json_of_a_trajectory_reads_back_equal"
DAMAGE, LISTS, CUT = "storage/test_digests.py", "storage/test_reader.py", "storage/test_journal.py"

MUTANTS = [
    Mutant(
        LEDGER,
        "if turn.index not in (0, expected):",
        "if turn.index > expected:",
        f"{STORED}::test_turns_are_written_in_order",
    ),
    Mutant(
        LEDGER,
        "self._written[trajectory.id] = turn.index + 1",
        "self._written[trajectory.id] = turn.index",
        f"{STORED}::test_turns_are_written_in_order",
    ),
    Mutant(
        LEDGER,
        "first = min(done, len(trajectory.turns) - 1)",
        "first = done",
        f"{STORED}::test_the_last_turn_of_an_episode_loses_the_observation_that_it_was_written_with",
    ),
    Mutant(
        LEDGER,
        "if trajectory.stop_reason is None:\n            raise",
        "if False:\n            raise",
        f"{STORED}::test_an_unfinished_episode_cannot_be_finished",
    ),
    Mutant(
        LEDGER,
        'executemany("DELETE FROM turn WHERE episode = ?", [row[:1] for row in begun])',
        'executemany("DELETE FROM turn WHERE episode = ?", [])',
        f"{STORED}::test_an_episode_that_starts_over_keeps_nothing_of_its_first_attempt",
    ),
    Mutant(
        LEDGER,
        "self._written.pop(trajectory.id, None)\n\n    async def write_turn",
        "pass\n\n    async def write_turn",
        f"{STORED}::test_an_episode_that_starts_over_keeps_nothing_of_its_first_attempt",
    ),
    Mutant(
        LEDGER, "if self._loop is not loop:", "if True:", f"{STORED}::test_turns_that_finish_together_share_a_commit"
    ),
    Mutant(
        LEDGER,
        "waiting, self._waiting, self._loop = self._waiting, [], None",
        "waiting, self._waiting = self._waiting, []",
        f"{STORED}::test_each_turn_is_on_disk_before_the_next_begins",
    ),
    Mutant(
        LEDGER,
        '"AND substr(id, 1, ?) = ? ORDER BY key LIMIT 100"',
        '"AND substr(id, 1, ?) = ? ORDER BY key DESC LIMIT 100"',
        f"{STORED}::test_every_episode_is_listed_also_beyond_one_page",
    ),
    Mutant(
        LEDGER,
        "            last = rows[-1][0]\n\n    def relabel",
        "            return\n\n    def relabel",
        f"{STORED}::test_every_episode_is_listed_also_beyond_one_page",
    ),
    Mutant(
        LEDGER,
        "ORDER BY key DESC LIMIT 1",
        "ORDER BY key LIMIT 1",
        f"{STORED}::test_the_last_label_is_that_of_the_episode_that_began_last",
    ),
    Mutant(
        LEDGER,
        '(f"{label}/", f"{label}0"),  #',
        '(f"{label}", f"{label}z"),  #',
        f"{STORED}::test_runs_whose_names_begin_alike_are_told_apart",
    ),
    Mutant(
        LEDGER,
        "if not waiting:\n                raise",
        "if waiting:\n                raise",
        f"{STORED}::test_what_cannot_be_stored_is_an_error_and_nobody_waits_for_ever",
    ),
    Mutant(
        LEDGER,
        "summaries.append(summary.summary_row(key, trajectory))\n            self",
        "self",
        "rollout/test_group_rewards.py",
    ),
    Mutant(
        LEDGER,
        "head, None))\n                summaries",
        "head, True))\n                summaries",
        "rollout/test_group_rewards.py",
    ),
    Mutant(LEDGER, '"turns IS NOT NULL AND awaits_group = 1"', '"turns IS NOT NULL"', "rollout/test_group_rewards.py"),
    Mutant(
        LOADING,
        "elif [turn.index for turn in trajectory.turns] != list(range(turns)):",
        "elif False:",
        f"{STORED}::test_missing_turns_are_never_read_back_as_a_whole_episode",
    ),
    Mutant(
        CODEC,
        'array("d", turn.logprobs)',
        'array("f", turn.logprobs)',
        "storage/test_codec.py::test_log_probabilities_of_any_size_keep_every_bit",
    ),
    Mutant(CODEC, "turn.observation_ids = _ints(row[3])", "turn.observation_ids = _ints(row[1])", EVERY_TURN),
    Mutant(CODEC, 'row["said_calls"] = [', 'row["spoken"] = [', EVERY_TURN),
    Mutant(CODEC, 'row["reasoning"] = turn.message.reasoning', "pass", EVERY_TURN),
    Mutant(CODEC, "if turn.policy_version:", "if turn.policy_version > 1:", EVERY_TURN),
    Mutant(
        CODEC,
        "version_changes=tuple((token, version) for token, version",
        "version_changes=tuple((version, token) for token, version",
        EVERY_TURN,
    ),
    Mutant(
        CODEC, 'finish_reason=get("finish_reason", "stop")', 'finish_reason=get("finish_reason", "length")', EVERY_TURN
    ),
    Mutant(CODEC, "if turn.value is not None:", "if turn.value:", ZERO),
    Mutant(CODEC, "if turn.potential is not None:", "if turn.potential:", ZERO),
    Mutant(
        CODEC,
        "[s.start, s.end, s.value, s.call, s.argument]",
        "[s.start, s.end, s.value, s.argument, s.call]",
        EVERY_TURN,
    ),
    Mutant(CODEC, 'role=get("role", ""),\n        row', "row", EVERY_TURN),
    Mutant(CODEC, 'row=get("row", 0)', 'row=get("rows", 0)', EVERY_TURN),
    Mutant(CODEC, 'task["tags"] = tuple(task["tags"])', "pass", AS_JSON),
    Mutant(
        CODEC,
        'return Row(opening, list(data["prompt_ids"]), tuple(data["tools"]), data["parent"])',
        'return Row(opening, list(data["prompt_ids"]), tuple(data["tools"]))',
        "rollout/test_contexts.py",
    ),
    Mutant(
        CODEC,
        "[*fields, dict(r.usage)] if r.usage else fields",
        "fields",
        f"{EVERY_TURN} rollout/test_turn_usage.py::test_the_record_keeps_it",
    ),
    Mutant(DIGESTS, "if digest is not None and digest_of", "if digest is None and digest_of", DAMAGE),
    Mutant(
        DIGESTS, "(kind % len(data), data)", "(data,)", f"{DAMAGE}::test_a_digest_tells_apart_what_would_read_alike"
    ),
    Mutant(DIGESTS, 'encode().removesuffix(b".0")', "encode()", DAMAGE),
    Mutant(SUMMARY, "trajectory.return_from(),", "trajectory.success or 0.0,", LISTS),
    Mutant(SUMMARY, "sum(len(turn.token_ids) for turn", "sum(len(turn.observation_ids) for turn", LISTS),
    Mutant(SUMMARY, "json.dumps(sorted(set(task.tags)))", "json.dumps(list(task.tags))", LISTS),
    Mutant(JOURNAL, 'f"\\n{json.dumps', 'f"{json.dumps', CUT),
    Mutant(JOURNAL, "except (ValueError, TypeError):", "except ValueError:", CUT),
]

mutated, test_the_tests_pass_on_the_copy, test_an_error_of_one_line_is_caught = mutant_tests(MUTANTS, always=0)
