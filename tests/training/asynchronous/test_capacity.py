"""The gate: how far playing may be ahead, and never further."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agentgym.training.asynchronous.stream import Capacity


def test_playing_is_ahead_by_the_staleness_and_no_further():
    """Batches of 4 groups, staleness 2: 3 batches may begin; with one in hand, nothing more until it is trained."""
    capacity = Capacity(staleness=2, groups_per_step=4)
    assert capacity.room(version=0, consumed=0, outstanding=0) == 12
    assert capacity.room(version=0, consumed=4, outstanding=8) == 0
    assert capacity.room(version=1, consumed=4, outstanding=8) == 4
    assert Capacity(staleness=0, groups_per_step=4).room(version=0, consumed=4, outstanding=0) == 0


@given(staleness=st.integers(0, 4), groups=st.integers(1, 8), batches=st.integers(1, 12))
def test_what_begins_is_as_old_as_the_bound_at_most_and_ends_with_the_training(staleness, groups, batches):
    """A trainer that takes the groups in the order in which they began."""
    capacity = Capacity(staleness, groups, total=batches * groups)
    version = consumed = outstanding = begun = 0
    begun_at: list[int] = []
    while consumed < batches * groups:
        room = capacity.room(version=version, consumed=consumed, outstanding=outstanding)
        begun_at += [version] * room
        begun, outstanding = begun + room, outstanding + room
        assert outstanding >= groups, "the trainer would wait for ever"
        oldest = begun_at[consumed]
        assert version - oldest <= staleness
        consumed, outstanding, version = consumed + groups, outstanding - groups, version + 1
    assert begun == batches * groups
