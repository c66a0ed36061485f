"""Errors of one line in the host's side of a sandbox, each of which a test that needs no sandbox must notice."""

from __future__ import annotations

from mutants import Mutant, mutant_tests

METERING, REPLIES, LINK, FRAMES = (
    f"sandbox/{name}.py" for name in ("metering", "host/replies", "link", "guest/frames")
)
QUEUE, WARM, HEADROOM, STATS = (f"sandbox/pool/{name}.py" for name in ("admission", "warm_set", "headroom", "stats"))
COUNTED, HOSTILE, POOL = "sandbox/test_metering.py", "sandbox/test_hostile_guest.py", "sandbox/test_pool_internals.py"
HONEST = f"{HOSTILE}::test_an_honest_answer_is_a_result"
WRONG = f"{HOSTILE}::test_an_answer_that_is_none_kills_the_sandbox"
ROOM = f"{POOL}::test_the_room_says_what_is_exhausted"
SHELF = f"{POOL}::test_a_shelf_expects_what_its_sandboxes_were_seen_to_take"
BACKWARDS = f"{COUNTED}::test_a_counter_that_went_backwards_began_anew"
SUMMED = f"{COUNTED}::test_figures_are_summed_and_of_peaks_the_highest_counts"
BUSY = f"{COUNTED}::test_overlapping_blocks_count_from_the_first_beginning_to_the_last_end"

MUTANTS = [
    Mutant(METERING, "if any(getattr(now, name) < getattr(before, name) for name in GROWING):", "if False:", BACKWARDS),
    Mutant(METERING, "max(totals.get(name, 0), value) if name in gauges", "value if name in gauges", SUMMED),
    Mutant(METERING, "else totals.get(name, 0) + value", "else value", SUMMED),
    Mutant(
        METERING,
        "        if not self._running:\n            self._earlier_s",
        "        if True:\n            self._earlier_s",
        BUSY,
    ),
    Mutant(
        METERING,
        "        if not self._running:\n            self._started_at",
        "        if True:\n            self._started_at",
        BUSY,
    ),
    Mutant(REPLIES, "if first > len(blob):", "if first > len(blob) + 9:", WRONG),
    Mutant(REPLIES, "type(exit_code) is not int or not -255 <= exit_code <= 255", "type(exit_code) is not int", WRONG),
    Mutant(REPLIES, "if type(exit_code) is not int or", "if not isinstance(exit_code, int) or", WRONG),
    Mutant(REPLIES, "(math.isfinite(value) and value >= 0)", "(value >= 0)", WRONG),
    Mutant(REPLIES, "(math.isfinite(value) and value >= 0)", "math.isfinite(value)", WRONG),
    Mutant(REPLIES, "not 0 <= value < 2**53", "not 0 <= value", WRONG),
    Mutant(REPLIES, "stderr=blob[first:]", "stderr=blob", HONEST),
    Mutant(
        REPLIES,
        "    if count > most:",
        "    if count > 2 * most:",
        f"{HOSTILE}::test_a_list_of_more_names_than_files_there_may_be_kills_the_sandbox",
    ),
    Mutant(
        REPLIES,
        "number not in errno.errorcode or",
        "number < 1 or",
        f"{HOSTILE}::test_an_error_number_that_does_not_exist_kills_the_sandbox",
    ),
    Mutant(
        REPLIES,
        "visible(text[:500])",
        "visible(text)",
        f"{HOSTILE}::test_an_error_is_pythons_own_and_its_text_is_bounded",
    ),
    Mutant(
        LINK,
        "if len(blob) > call.max_blob:",
        "if False:",
        f"{HOSTILE}::test_an_answer_larger_than_its_own_call_asked_for_kills_the_link_though_another_call_asked_for_more",
    ),
    Mutant(
        LINK,
        "if not call.future.done():  # if done",
        "if True:  # if done",
        f"{HOSTILE}::test_a_late_answer_to_a_cancelled_call_is_dropped",
    ),
    Mutant(
        LINK,
        "            self.hung_up = True\n            self.close(reason)",
        "            self.close(reason)",
        f"{HOSTILE}::test_a_link_says_that_its_guest_has_ended",
    ),
    Mutant(
        LINK,
        "        del self._pending[number]  # only now",
        "        # only now",
        f"{HOSTILE}::test_a_second_answer_to_one_call_kills_the_sandbox",
    ),
    Mutant(
        LINK,
        "self._pace.charge(len(data),",
        "self._pace.charge(10**9,",
        f"{HOSTILE}::test_a_reply_that_comes_byte_by_byte_wakes_the_host_seldom",
    ),
    Mutant(QUEUE, "del self._tenants[tenant], kinds[kind]", "del kinds[kind]", POOL),
    Mutant(QUEUE, "item = line.popleft()", "item = line.pop()", POOL),
    Mutant(
        QUEUE,
        "        if not kinds:\n            del self._tenants[tenant]",
        "        if not kinds:\n            pass",
        POOL,
    ),
    Mutant(WARM, "if self.requests > 1:", "if self.requests > 0:", POOL),
    Mutant(WARM, "min(2 * self.target or 1, most)", "2 * self.target or 1", POOL),
    Mutant(WARM, "        if peak_mib > 0:\n", "        if peak_mib >= 0:\n", SHELF),
    Mutant(WARM, "/ len(self.peaks_mib) * _MARGIN", "/ len(self.peaks_mib)", SHELF),
    Mutant(HEADROOM, "- self.memory_kept_mib - taken_mib", "- taken_mib", ROOM),
    Mutant(HEADROOM, "< _DESCRIPTORS_EACH * (taken + 1)", "< _DESCRIPTORS_EACH * taken", ROOM),
    Mutant(HEADROOM, "< _PROCESSES_EACH * (taken + 1)", "< _PROCESSES_EACH * taken", ROOM),
    Mutant(STATS, "deque(maxlen=_RECENT)", "deque()", POOL),
]

mutated, test_the_tests_pass_on_the_copy, test_an_error_of_one_line_is_caught = mutant_tests(MUTANTS, always=0)
