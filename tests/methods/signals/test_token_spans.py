"""Spans of characters and the tokens that stand for them, for a byte-level BPE with characters of many bytes."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.formats.tags import Tags
from agentgym.messages import Call, Message
from agentgym.methods.signals.token_spans import token_ranges, written_range
from agentgym.policy.formats.hermes import Hermes
from agentgym.trajectory import Span

pytest.importorskip("torch")


@pytest.fixture(scope="module")
def tokenizer():
    from agentgym.policy import make_tokenizer

    return make_tokenizer(["query sql SELECT name FROM customers WHERE city = 'Oslo' answer text"] * 12, 400)


CHARACTER = st.characters(codec="utf-8", exclude_characters="<") | st.just("\ufffd")  # so are undecoded bytes shown
TEXT = st.text(CHARACTER, min_size=1, max_size=30)
ODD = 'naïve Ünïcøde 漢字 🙂👩‍👩‍👧 \t"quoted\\" \u2028 e\u0301 \ufffd\ufffd name city'


PRINTABLE = [*range(33, 127), *range(161, 173), *range(174, 256)]  # bytes that byte-level BPE writes as themselves
OTHERS = [byte for byte in range(256) if byte not in PRINTABLE]
BYTE_OF = {chr(byte): byte for byte in PRINTABLE} | {chr(256 + index): byte for index, byte in enumerate(OTHERS)}


def bytes_of(tokenizer, token_id: int) -> bytes:
    """Of one token, from the definition of byte-level BPE and not from the code under test."""
    token = tokenizer.convert_ids_to_tokens(token_id)
    is_added = token_id in tokenizer.added_tokens_decoder
    return token.encode() if is_added else bytes(BYTE_OF[character] for character in token)


@settings(max_examples=100, deadline=None)
@given(text=TEXT | st.just(ODD))
def test_a_token_stands_for_every_character_of_which_it_holds_a_byte(tokenizer, text):
    ids = tokenizer.encode(text, add_special_tokens=False)
    decoded, ranges = token_ranges(tokenizer, ids)
    assert decoded == text
    owner = [index for index, character in enumerate(text) for _ in character.encode()]  # of each byte, its character
    at = 0
    for token_id, (begin, end) in zip(ids, ranges, strict=True):
        size = len(bytes_of(tokenizer, token_id))
        assert (begin, end) == (owner[at], owner[at + size - 1] + 1)
        at += size
    assert at == len(owner)


def test_a_text_cut_within_a_character_still_gives_every_token_a_range(tokenizer):
    ids = tokenizer.encode("ab 🙂", add_special_tokens=False)[:-1]
    text, ranges = token_ranges(tokenizer, ids)
    assert text.startswith("ab ")
    assert len(ranges) == len(ids)
    assert all(0 <= begin <= end <= len(text) for begin, end in ranges)


@settings(max_examples=100, deadline=None)
@given(code=TEXT | st.just(ODD), data=st.data(), ascii_only=st.booleans())
def test_a_span_of_an_argument_is_found_in_the_json_of_the_call(code, data, ascii_only):
    start = data.draw(st.integers(0, len(code) - 1))
    end = data.draw(st.integers(start + 1, len(code)))
    body = json.dumps({"name": "test", "arguments": {"code": code}}, ensure_ascii=ascii_only)
    written = f"A thought.<tool_call>{body}</tool_call>"
    content, calls = Hermes().parse(written)
    assert calls[0].arguments == {"code": code}
    written_at = written_range(written, Message("assistant", content, calls), Span(start, end, call=0, argument="code"))
    if written_at is None:  # a short text that also stands elsewhere
        assert written.count(code) + written.count(json.dumps(code, ensure_ascii=ascii_only)) > 1
    else:
        assert json.loads(f'"{written[slice(*written_at)]}"') == code[start:end]


def test_a_span_is_found_where_calls_are_written_without_escapes():
    written = 'So:\n```python\na = "é"\nb = a / 0\n```'
    content, calls = Tags().parse(written)
    code = calls[0].arguments["code"]
    span = Span(code.index("b"), len(code), call=0, argument="code")
    written_at = written_range(written, Message("assistant", content, calls), span)
    assert written_at is not None
    assert written[slice(*written_at)] == "b = a / 0"


def test_of_calls_with_the_same_text_each_is_found_in_its_own_place():
    calls = (Call("test", {"code": "x / 0"}, "call_0"), Call("submit", {"code": "x / 0"}, "call_1"))
    written = Hermes().render(calls)
    message = Message("assistant", "", calls)
    first, second = (written_range(written, message, Span(0, 1, call=i, argument="code")) for i in (0, 1))
    assert first is not None
    assert second is not None
    assert first < second
    assert [written[slice(*written_at)] for written_at in (first, second)] == ["x", "x"]


def test_a_text_that_was_written_more_often_than_it_was_called_is_left_out():
    call = Call("test", {"code": "x / 0"}, "call_0")
    written = "I try x / 0." + Hermes().render((call,))
    assert written_range(written, Message("assistant", "", (call,)), Span(0, 1, call=0, argument="code")) is None
