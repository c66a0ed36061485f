"""Line charts: ticks enclose the data, labels differ, and figures without a finite point are left out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from research.svg import Series, line_chart, show, tick_label, ticks


@given(low=st.floats(-1e6, 1e6), span=st.floats(0, 1e6), count=st.integers(2, 9))
def test_ticks_enclose_the_data_and_are_few_and_round(low, span, count):
    values = ticks(low, low + span, count)
    unseen = 1e-6 * max(1, abs(low), span)  # far less than a pixel
    assert values[0] <= low + unseen
    assert values[-1] >= low + span - unseen
    assert 2 <= len(values) <= 2 * count + 3
    assert values == sorted(values)


def test_a_chart_of_one_point_of_nothing_and_of_not_a_number_is_drawn_or_left_out():
    assert "circle" in line_chart("One", [Series("x", [(3, 0.5)])], x_label="step")
    assert line_chart("None", [Series("x", [])], x_label="step") == ""
    assert line_chart("NaN", [Series("x", [(1, float("nan"))])], x_label="step") == ""
    assert "NaN" not in line_chart("Some", [Series("x", [(1, float("inf")), (2, 1.0)])], x_label="step")


@given(low=st.floats(-1e5, 1e5), span=st.floats(1e-3, 1e6), count=st.integers(3, 9))
def test_no_two_ticks_of_an_axis_read_the_same(low, span, count):
    values = ticks(low, low + span, count)
    assert len({tick_label(value, values[1] - values[0]) for value in values}) == len(values)


@pytest.mark.parametrize(
    ("value", "written"),
    [(1200, "1,200"), (0.0341, "0.0341"), (2.5e-6, "2.5e-6"), (0, "0")],
)
def test_numbers_are_shown_as_people_write_them(value, written):
    assert show(value) == written
