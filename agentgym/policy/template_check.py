"""Check that a model's chat template and call format fit each other, before anything is played or trained."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agentgym.errors import PolicyError
from agentgym.messages import Call, Message
from agentgym.policy.formats.choice import AUTO, PROBE_CALL, PROBE_TOOL, call_by_template, reads_back
from agentgym.policy.formats.contract import excerpt
from agentgym.policy.rendering import TemplateRenderer
from agentgym.policy.training_template import is_training_template, tried_renderer
from agentgym.thoughts import THOUGHTS

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast


ANSWER = "That is all."


@dataclass(frozen=True)
class TemplateFinding:
    """One line of `agentgym model check`: the check, whether it passed, and what it found."""

    check: str
    ok: bool
    detail: str


def check_template(
    tokenizer: PreTrainedTokenizerFast, call_format: str = AUTO, template_options: dict[str, Any] | None = None
) -> list[TemplateFinding]:
    """Check that tools reach the model, calls are read, thoughts are not run as calls, and earlier tokens stay fixed.

    Args:
        tokenizer: with its chat template.
        call_format: registered name, or "auto".
        template_options: further variables of the template.
    Returns: the findings in order; only the first if the template is unusable.
    Raises: UnknownNameError for a call format that is not registered.
    """
    try:
        renderer = tried_renderer(tokenizer, call_format, template_options)
    except PolicyError as error:
        return [TemplateFinding("usable", False, str(error))]
    return [
        TemplateFinding("usable", True, _usable(tokenizer)),
        _tools(renderer),
        _calls(renderer, call_by_template(tokenizer, template_options, renderer.call_format)),
        _thoughts(renderer),
        _results(renderer),
        _observations(renderer),
        _two_turns(renderer),
        _ends(renderer),
    ]


def _usable(tokenizer: PreTrainedTokenizerFast) -> str:
    by_what = " by TRL's training variant of the template" if is_training_template(tokenizer.chat_template) else ""
    return f"earlier tokens stay as they are when the conversation goes on{by_what}"


def _tools(renderer: TemplateRenderer) -> TemplateFinding:
    question = Message("user", "?")
    prompt = renderer.tokenizer.decode(renderer.prompt([question], [PROBE_TOOL]))
    with_tools, without = (
        renderer.template.render([{"role": "user", "content": "?"}], tools) for tools in ([PROBE_TOOL], [])
    )
    by_template = with_tools != without and PROBE_CALL.name in with_tools
    how = "by the template" if by_template else "by the call format, as the template drops them"
    return TemplateFinding("tools are told", PROBE_CALL.name in prompt, how)


def _calls(renderer: TemplateRenderer, written: str | None) -> TemplateFinding:
    name = renderer.call_format.name
    message = renderer.numbered(Message("assistant", "", (PROBE_CALL,)), 0)
    if renderer.parse(renderer.encode(message), [PROBE_TOOL]).calls != message.calls:
        return TemplateFinding("calls are read", False, f"{name} does not read back what it writes with this tokenizer")
    if written is None:
        return TemplateFinding("calls are read", True, f"{name}; the template itself writes none")
    if reads_back(renderer.call_format, written):
        return TemplateFinding("calls are read", True, f"{name}, as the template writes them")
    detail = f"{name} does not read what the template writes: {excerpt(written, 120)}. Leave call_format at 'auto'."
    return TemplateFinding("calls are read", False, detail)


def _thoughts(renderer: TemplateRenderer) -> TemplateFinding:
    call = renderer.call_format.render((PROBE_CALL,))
    template = str(renderer.tokenizer.chat_template)
    known = [opening for opening in THOUGHTS if opening in template] or ["<think>"]
    executed = [
        opening
        for opening in known
        if renderer.parse(
            renderer.encode(Message("assistant", f"{opening}{call}{THOUGHTS[opening]}Done.")), [PROBE_TOOL]
        ).calls
    ]
    detail = f"calls within {', '.join(executed)} are executed" if executed else "calls within a thought are not run"
    return TemplateFinding("thoughts are safe", not executed, detail)


def _results(renderer: TemplateRenderer) -> TemplateFinding:
    """Check that a tool result with the text of control tokens adds no control tokens to the prompt."""
    specials = set(renderer.tokenizer.all_special_ids) | {renderer.end_of_turn_id}
    forged = "".join(renderer.tokenizer.decode([token]) for token in sorted(specials))
    counts = [
        sum(token in specials for token in renderer.observation([_result(content)])) for content in ("words", forged)
    ]
    detail = (
        "a result cannot end a turn"
        if counts[0] == counts[1]
        else f"control tokens beside a plain result and one with their text: {counts}"
    )
    return TemplateFinding("results are text", counts[0] == counts[1], detail)


def _observations(renderer: TemplateRenderer) -> TemplateFinding:
    """Check that the text between two turns has each result once, in order, and nothing of another call."""
    names, words = ("alpha", "beta"), ("first words", "second words")
    results = [Message("tool", word, name=name) for name, word in zip(names, words, strict=True)]
    text = renderer.tokenizer.decode(renderer.observation(results))
    places = [text.find(word) for word in words]
    wrong = [text.count(word) != 1 for word in words] + [places != sorted(places), "probe" in text]
    detail = f"what stands between two turns: {excerpt(text, 200)}" if any(wrong) else "nothing but results"
    return TemplateFinding("observations hold results", not any(wrong), detail)


def _two_turns(renderer: TemplateRenderer) -> TemplateFinding:
    """Check that the renderer writes two turns with words and parallel calls as the template does."""
    check = "written as the template"
    if not renderer.template.takes_calls:
        return TemplateFinding(
            check, True, "the template writes no calls; they are written as the call format has them"
        )
    words_tried = [""] if hasattr(renderer.call_format, "compose") else ["Let me look.", ""]
    for count, words in ((count, words) for count in (2, 1) for words in words_tried):
        turns = _probe_turns(renderer, count, words)
        try:
            expected, answered = (
                renderer.template.conversation("?", turns, _probe_results(turns), [PROBE_TOOL], answer=answer)
                for answer in ("", ANSWER)
            )
        except PolicyError:
            continue
        return _compared(renderer, turns, expected, answered, count, words)
    return TemplateFinding(check, False, "the template refuses two turns with calls and results")


def _probe_turns(renderer: TemplateRenderer, count: int, words: str) -> list[Message]:
    """Return two messages of `count` calls, the first one with words."""
    turns = []
    for turn in range(2):
        calls = [Call("probe", {"text": f"words {turn}{n}", "count": n}) for n in range(count)]
        turns.append(renderer.numbered(Message("assistant", words * (turn == 0), tuple(calls)), turn * count))
    return turns


def _probe_results(turns: Sequence[Message]) -> list[list[str]]:
    return [[f"result {call.arguments['text'][-2:]}" for call in turn.calls] for turn in turns]


def _compared(
    renderer: TemplateRenderer, turns: Sequence[Message], expected: str, answered: str, count: int, words: str
) -> TemplateFinding:
    """Compare the renderer's text of turns, and of a final answer after them, with the template's text."""
    check, ids = "written as the template", list[int]()
    for turn, texts in zip(turns, _probe_results(turns), strict=True):
        written = renderer.encode(turn)
        answers = [
            Message("tool", text, name=call.name, call_id=call.id) for call, text in zip(turn.calls, texts, strict=True)
        ]
        ids += written + renderer.after_turn(written, answers)
    prompt = renderer.template.render([{"role": "user", "content": "?"}], [PROBE_TOOL])
    transcript = prompt + renderer.tokenizer.decode(ids)
    *answer_ids, _ = renderer.encode(Message("assistant", ANSWER))
    with_answer = transcript + renderer.tokenizer.decode(answer_ids)
    for ours, theirs in ((transcript, expected), (with_answer, answered[: answered.rfind(ANSWER) + len(ANSWER)])):
        if not _equal_but_for_thoughts(ours, theirs):
            ours, theirs = (_without_empty_thoughts(text) for text in (ours, theirs))
            pairs = zip(ours, theirs, strict=False)
            at = next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(ours), len(theirs)))
            ours, theirs = (excerpt(text[max(0, at - 30) : at + 60], 90) for text in (ours, theirs))
            return TemplateFinding(check, False, f"{ours} where the template writes {theirs}")
    ids = renderer.tokenizer.encode(prompt, add_special_tokens=False) + ids
    exact = ids == renderer.tokenizer.encode(expected, add_special_tokens=False)
    remarks = f"two turns of {count} calls, " + ("token for token" if exact else "character for character")
    remarks += "" if transcript == expected else ", except for empty thoughts"
    if not words and not hasattr(renderer.call_format, "compose"):
        remarks += "; it writes no words before calls, and the agent's own stand there"
    remarks += "" if count == 2 else "; it takes one call in a message, and further ones are written beside it"
    return TemplateFinding(check, True, remarks)


def _equal_but_for_thoughts(ours: str, theirs: str) -> bool:
    return any(
        _without_empty_thoughts(ours, *around) == _without_empty_thoughts(theirs, *around)
        for around in _AROUND_THOUGHTS
    )


def _ends(renderer: TemplateRenderer) -> TemplateFinding:
    """Check that the tokens that end a message in the template also end it in sampling."""
    written = renderer.tokenizer.convert_tokens_to_ids([*renderer.template.ends])
    detail = ", ".join(renderer.tokenizer.convert_ids_to_tokens(sorted(renderer.end_ids)))
    return TemplateFinding("ends", set(written) <= renderer.end_ids, detail)


_AROUND_THOUGHTS = (("", r"\s*"), (r"\s*", r"\s*"), ("", r"\n{0,2}"))
"""Patterns of the white space before and after a thought that may be removed with the thought."""


def _without_empty_thoughts(text: str, before: str = "", after: str = r"\s*") -> str:
    marks = (
        rf"(?:{re.escape(opening)}\s*)?{re.escape(closing)}"
        for opening, closing in THOUGHTS.items()
        if closing != "<|end|>"
    )
    return re.sub(rf"{before}(?:{'|'.join(marks)}){after}", "", text)


def _result(content: str) -> Message:
    return Message("tool", content, name=PROBE_CALL.name)
