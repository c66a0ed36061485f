"""JSON of peers: what JSON has not is refused, and so is what is too deep to walk through."""

from __future__ import annotations

import json

import pytest

from agentgym.strict_json import MAX_LEVELS, loads


@pytest.mark.parametrize("text", ["NaN", "-Infinity", "1e999", '{"a": [NaN]}', "9" * 5000, "{", "", '{"a": 1}}'])
def test_what_is_no_json_is_a_value_error(text):
    for given in (text, text.encode(), bytearray(text.encode())):
        with pytest.raises(ValueError, match=r"."):
            loads(given)


@pytest.mark.parametrize("levels", [MAX_LEVELS + 1, 5000, 100_000])
@pytest.mark.parametrize("pair", ["[]", '{"a":}'])
def test_what_is_too_deep_is_a_value_error(levels, pair):
    opening, closing = pair[:-1], pair[-1]
    with pytest.raises(ValueError, match="levels deep"):
        loads(opening * levels + "1" + closing * levels)


def test_everything_else_is_read_as_ever():
    value = {"a": [1, 2.5, None, True, "\u00e9", {"b": [[]] * 200}], "c": 1e308}
    assert loads(json.dumps(value)) == value
    deepest = "[" * MAX_LEVELS + "]" * MAX_LEVELS
    assert loads(deepest) == json.loads(deepest)


@pytest.mark.parametrize("text", [r'"\ud800"', r'{"\uDC00x": 1}', '["a\ud800"]'])
def test_half_of_a_surrogate_pair_is_a_value_error(text):
    halves = [text] if "\ud800" in text else [text, text.encode(), text.encode("utf-16")]
    for given in halves:
        with pytest.raises(ValueError, match="half of a surrogate pair"):
            loads(given)
        assert loads(given, allow_surrogates=True) == json.loads(given)
    with pytest.raises(ValueError, match="utf-8"):
        loads('["\ud800"]'.encode("utf-8", "surrogatepass"), allow_surrogates=True)
    assert loads(r'"\ud83d\ude00"') == loads(rb'"\ud83d\ude00"') == "\U0001f600"
