"""benchmarks/gateway.py measures both sides, and only episodes that were played to their end."""

from __future__ import annotations

import pytest

pytest.importorskip("starlette")
import gateway


async def test_it_has_a_row_for_each_policy():
    table = await gateway.table_of(gateway.options_of(["--quick"]))
    policy, own, over, _, limit, *_ = (list(column.cells) for column in table.columns)
    assert policy == ["answers at once", "takes 0.05 s a turn"]
    assert limit == ["-", "1.2"]
    assert all(cell.endswith(" ms") for cell in own + over)
    assert int(own[1].split()[0]) >= 50  # the policy's own time is in it


async def test_an_episode_that_was_not_played_to_its_end_is_no_figure():
    with pytest.raises(AssertionError):
        await gateway.play(gateway.Counting(3), 1, 2, None)  # its message asks for a third turn
