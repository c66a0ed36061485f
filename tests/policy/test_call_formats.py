"""Every registered call format: what it writes it reads back, whatever it reads costs linear time, and errors teach."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from agentgym.messages import Call
from agentgym.policy.formats.coercion import parse_message, with_types
from agentgym.policy.formats.contract import MAX_CALLS, ids_of
from agentgym.registry import load, names
from agentgym.testing import check_call_format

ALL = names("call_formats")
FORMATS = {name: load("call_formats", name)() for name in ALL}
word = st.from_regex(r"[a-z_]{1,8}", fullmatch=True)
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
pieces = st.sampled_from(
    [
        *("<tool_call>", "</tool_call>", "<function=q>", "</function>", "<parameter=x>", "</parameter>", "<arg_key>"),
        *("</arg_key>", "<arg_value>", "</arg_value>", "[TOOL_CALLS]", "[ARGS]", "<|tool_call_start|>", "q(x='"),
        *("<|tool_call_end|>", "<|tool_call>call:q{", "}<tool_call|>", '<|"|>', "<start_function_call>call:q{"),
        *(
            "<escape>",
            "<|message|>",
            " to=functions.q",
            "<|call|>",
            "<|start|>",
            "<｜tool▁call▁begin｜>",
            "<｜tool▁sep｜>",
        ),
        *("<|tool_call_begin|>functions.q:0", "<|tool_call_argument_begin|>", "<|tool_call|>[", "<|START_ACTION|>["),
        *("<|END_ACTION|>", '<invoke name="q">', '<parameter name="x">', "</invoke>", "<minimax:tool_call>"),
        *("<｜tool▁call▁end｜>", "Action: q\n", "Action Input: ", "\nObservation:", "<|python_tag|>", "q.call("),
        *(
            '{"name": "q", "parameters": ',
            '{"name": "q", "arguments": ',
            "{}",
            "[",
            "]",
            "'",
            '"',
            "\\",
            ":",
            ",",
            "\n",
        ),
        *("NaN", "1e999", "9" * 40, "\\ud800", "<think>", "</think>", "```json\n", "\n```", "x", "(", ")", "="),
    ]
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.parametrize("name", ALL)
def test_it_passes_the_checks_that_are_open_to_anyones_format(name):
    check_call_format(name, **({"tool": "query", "argument": "sql"} if name == "tags" else {}))


@pytest.mark.parametrize("name", [name for name in ALL if name != "tags"])
@settings(max_examples=25)
@given(written=st.lists(st.tuples(word, st.dictionaries(word, values, max_size=3)), min_size=1, max_size=4))
def test_what_is_written_is_read_back_or_refused(name, written):
    form = FORMATS[name]
    calls = tuple(Call(tool, arguments, f"call_{index}") for index, (tool, arguments) in enumerate(written))
    try:
        rendered = form.render(calls)
    except ValueError:
        assume(False)
    if getattr(form, "untyped", False):
        as_text = [
            {
                key: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
                for key, value in a.items()
            }
            for _, a in written
        ]
        calls = tuple(Call(c.name, a, c.id) for c, a in zip(calls, as_text, strict=True))
    if ids := ids_of(form):
        calls = tuple(replace(call, id=ids.make(call.name, index)) for index, call in enumerate(calls))
    assert form.parse(rendered) == ("", calls)


@pytest.mark.parametrize("name", ALL)
@settings(max_examples=40)
@given(written=st.lists(pieces, max_size=25).map("".join))
def test_whatever_is_written_is_read_without_raising(name, written):
    content, calls = FORMATS[name].parse(written)
    assert isinstance(content, str)
    assert len({call.id for call in calls}) == len(calls) <= MAX_CALLS + 1
    json.dumps([call.arguments for call in calls], allow_nan=False)


OPENINGS = {
    "qwen_xml": ["<tool_call>", "<tool_call><function=q><parameter=x>", "</parameter>  "],
    "glm": ["<tool_call>", "<tool_call>q<arg_key>x</arg_key><arg_value>", "</arg_value>  "],
    "lfm2": ["<|tool_call_start|>[", "q(x=['", "\\"],
    "gemma4": ["<|tool_call>call:q{x:[", '<|"|>', "{x:"],
    "functiongemma": ["<start_function_call>call:q{x:[", "<escape>", "{x:"],
    "mistral": ["[TOOL_CALLS][", "[TOOL_CALLS]q[ARGS]{", " "],
    "mistral_args": ["[TOOL_CALLS]q[ARGS]", "[ARGS]"],
    "llama3": ['{"name": "q", ', '"parameters": ', '<|python_tag|>q.call(x="', "\n{"],
    "harmony": ["<|message|>", " to=functions.q<|message|>{", "<|start|>", "to="],
    "deepseek": ["<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "```json"],
    "deepseek_v31": ["<｜tool▁call▁begin｜>", "<｜tool▁sep｜>"],
    "kimi_k2": ["<|tool_call_begin|>", "<|tool_call_argument_begin|>", "functions.q:0"],
    "minimax": ['<invoke name="q">', '<invoke name="q"><parameter name="x">', "</parameter>  "],
    "phi4": ["<|tool_call|>", "<|tool_call|>[]", "<|tool_call|>[{}]   "],
    "cohere": ["<|START_ACTION|>", "<|START_ACTION|>  ", "<|START_ACTION|>[{}]"],
    "pythonic": ["[q(x=['", "\n[q(", "q(x=1), ", "\\"],
    "react": ["Action: q\n", "Action Input: ", "\n  Action:", " "],
    "hermes": ["<tool_call>", '"', '<tool_call>{"name": "'],
    "tags": ["<sql>", "```python\n", '<call tool="q">'],
}


def steps_of(parse, written: str) -> int:
    """How many lines of Python a parse runs: a measure of its work that no other process disturbs."""
    import sys

    count = 0

    def trace(frame, event, argument):
        nonlocal count
        count += 1
        return trace

    previous = sys.gettrace()
    sys.settrace(trace)
    try:
        parse(written)
    finally:
        sys.settrace(previous)
    return count


@pytest.mark.parametrize("name", ALL)
def test_hostile_repetitions_are_read_in_linear_steps(name):
    for opening in OPENINGS[name]:
        short, long = (steps_of(FORMATS[name].parse, opening * n) for n in (500, 2000))
        assert long <= 4.5 * short + 2000, opening


READ = {
    "qwen_xml": "<tool_call>\n<function=q>\n<parameter=sql>\nSELECT 1\n\n</parameter>\n</function>\n</tool_call>",
    "glm": "<tool_call>q\n<arg_key>sql</arg_key>\n<arg_value>SELECT 1\n</arg_value>\n</tool_call>",
    "llama3": '<|python_tag|>{"name": "q", "parameters": {"sql": "SELECT 1\\n"}}',
    "mistral": '[TOOL_CALLS] [{"name": "q", "arguments": {"sql": "SELECT 1\\n"}, "id": "abcdefghi"}]',
    "mistral_args": '[TOOL_CALLS]q[CALL_ID]abcdefghi[ARGS]{"sql": "SELECT 1\\n"}',
    "lfm2": "<|tool_call_start|>[q(sql='SELECT 1\\n')]<|tool_call_end|>",
    "gemma4": '<|tool_call>call:q{sql:<|"|>SELECT 1\n<|"|>}<tool_call|>',
    "functiongemma": "<start_function_call>call:q{sql:<escape>SELECT 1\n<escape>}<end_function_call>",
    "harmony": '<|channel|>commentary to=functions.q <|constrain|>json<|message|>{"sql": "SELECT 1\\n"}<|call|>',
    "deepseek": "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>q\n```json\n"
    '{"sql": "SELECT 1\\n"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
    "deepseek_v31": "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>q<｜tool▁sep｜>"
    '{"sql": "SELECT 1\\n"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
    "kimi_k2": "<|tool_calls_section_begin|><|tool_call_begin|>functions.q:3<|tool_call_argument_begin|>"
    '{"sql": "SELECT 1\\n"}<|tool_call_end|><|tool_calls_section_end|>',
    "minimax": '<minimax:tool_call>\n<invoke name="q">\n<parameter name="sql">SELECT 1\n</parameter>\n</invoke>\n'
    "</minimax:tool_call>",
    "phi4": '<|tool_call|>[{"name": "q", "arguments": {"sql": "SELECT 1\\n"}}]<|/tool_call|>',
    "cohere": '<|START_ACTION|>[\n    {"tool_call_id": "0", "tool_name": "q", "parameters": {"sql": "SELECT 1\\n"}}\n]'
    "<|END_ACTION|>",
    "react": 'Action: q\nAction Input: {"sql": "SELECT 1\\n"}\nObservation: 7\nAction: drop\nAction Input: {}',
    "pythonic": '[q(sql="SELECT 1\\n")]',
    "hermes": '<tool_call>[{"name": "q", "arguments": {"sql": "SELECT 1\\n"}}]</tool_call>',
}


WRITTEN_IDS = {"kimi_k2": "functions.q:3", "cohere": "0", "mistral": "abcdefghi", "mistral_args": "abcdefghi"}


@pytest.mark.parametrize("name", READ)
def test_a_call_as_its_models_write_it_is_read(name):
    call_id = WRITTEN_IDS.get(name, "call_0")
    assert FORMATS[name].parse(READ[name]) == ("", (Call("q", {"sql": "SELECT 1\n"}, call_id),))


@pytest.mark.parametrize("name", READ)
def test_a_cut_call_is_answered_and_never_a_final_answer(name):
    """Cut in the middle of its arguments, as at the end of a turn's tokens."""
    written = READ[name].partition("LECT")[0]
    _, calls = FORMATS[name].parse(written)
    assert len(calls) == 1
    assert calls[0].error is not None
    assert "Write it like this" in calls[0].error


@pytest.mark.parametrize("name", [name for name in READ if name != "harmony"])
def test_a_call_within_a_thought_is_none(name):
    _, calls = FORMATS[name].parse(f"<think>Perhaps {READ[name]}</think>No.")
    assert calls == ()


def test_a_call_within_the_analysis_of_harmony_is_none():
    content, calls = FORMATS["harmony"].parse(
        "<|channel|>analysis<|message|>Perhaps to=functions.q {}<|end|><|start|>assistant<|channel|>final<|message|>No."
    )
    assert (content, calls) == ("<think>Perhaps to=functions.q {}</think>No.", ())


def test_what_a_syntax_cannot_say_is_refused_with_the_call_and_the_remedy():
    with pytest.raises(ValueError, match=r"cannot write the call 'q'.*hermes"):
        FORMATS["gemma4"].render((Call("q", {"s": '<|"|>'}),))


def test_an_object_without_parameters_is_an_answer_in_llamas_format_too():
    answer = 'The customer is\n{"name": "Alice", "city": "Oslo"}'
    assert FORMATS["llama3"].parse(answer) == (answer, ())


SCHEMA = {
    "properties": {
        "n": {"type": "integer"},
        "x": {"type": "number"},
        "on": {"type": "boolean"},
        "s": {"type": "string"},
        "either": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        "maybe": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "rows": {"type": "array", "items": {"type": "integer"}},
        "colour": {"$ref": "#/$defs/Colour"},
        "any": {},
    },
    "$defs": {"Colour": {"enum": ["1", "2"]}},
}


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (
            {"n": "3", "x": "3", "s": "3", "either": "3", "any": "3"},
            {"n": 3, "x": 3, "s": "3", "either": "3", "any": 3},
        ),
        ({"on": "True", "maybe": "None", "rows": "[1, 2]"}, {"on": True, "maybe": None, "rows": [1, 2]}),
        (
            {"n": "three", "on": "1", "rows": "{}", "colour": "1"},
            {"n": "three", "on": "1", "rows": "{}", "colour": "1"},
        ),
        ({"any": "plain text", "unknown": "3", "n": 4}, {"any": "plain text", "unknown": "3", "n": 4}),
    ],
)
def test_the_schema_says_what_an_untyped_text_is(written, meant):
    """A text that is none of what the schema asks for stays a text: the tool's own check then names the problem."""
    assert with_types(written, SCHEMA) == meant


def test_types_come_with_the_tools_and_only_where_the_syntax_has_none():
    tools = [{"function": {"name": "q", "parameters": SCHEMA}}]
    for name, expected in (("qwen_xml", 3), ("glm", 3), ("hermes", "3")):
        rendered = FORMATS[name].render((Call("q", {"n": "3"}),))
        _, calls = parse_message(FORMATS[name], rendered, tools)
        assert calls[0].arguments == {"n": expected}


OF_TEMPLATE = {
    "deepseekv3_training": "deepseek",
    "gemma4": "gemma4",
    "glm4moe": "glm",
    "gptoss": "harmony",
    "lfm2_v2": "lfm2",
    "llama3_1": "llama3",
    "nemotron_3_nano": "qwen_xml",
    "qwen2_5": "hermes",
    "qwen3": "hermes",
    "qwen3_5_think": "qwen_xml",
    "qwen3_8": "qwen_xml",
}


@pytest.mark.parametrize("template", OF_TEMPLATE)
def test_the_call_that_a_models_own_template_writes_is_read(template, tokenizer):
    trl = pytest.importorskip("trl")
    chat_template = (Path(trl.__file__).parent / "chat_templates" / f"{template}.jinja").read_text()
    arguments = {"s": 'it\'s "a"\nb', "n": 3}
    properties = {"s": {"type": "string", "description": "S."}, "n": {"type": "integer", "description": "N."}}
    function = {"name": "q", "description": "Q.", "parameters": {"type": "object", "properties": properties}}
    tools = [{"type": "function", "function": function}]
    call = {"id": "call00000", "type": "function", "function": {"name": "q", "arguments": arguments}}
    messages = [{"role": "user", "content": "?"}, {"role": "assistant", "content": "", "tool_calls": [call]}]
    options = {"tools": tools, "tokenize": False, "chat_template": chat_template}
    prompt = tokenizer.apply_chat_template(messages[:1], add_generation_prompt=True, **options)
    complete = tokenizer.apply_chat_template(messages, **options)
    while not complete.startswith(prompt):  # which may end in a thought that the answer does not have
        prompt = prompt[:-1]
    written = complete.removeprefix(prompt)
    _, calls = parse_message(FORMATS[OF_TEMPLATE[template]], written, tools)
    assert calls == (Call("q", arguments, "call_0"),)
