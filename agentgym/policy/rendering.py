"""Convert messages to token ids and back, for any tokenizer with a chat template.

The template renders placeholders only. Its own text around them is encoded with special tokens. Text from outside
(prompts, tool results, names) is encoded separately, without special tokens, and then inserted: `<|im_end|>` in a tool
result is ordinary text and can never forge a turn.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from tokenizers import Tokenizer

from agentgym.errors import PolicyError
from agentgym.messages import ImagePart, Message, TextPart
from agentgym.policy.call_layout import CallLayout, answering
from agentgym.policy.chat_template import MARK, PROBE_TOOL, ChatTemplate, anchor_in, mark, placeholders
from agentgym.policy.formats.coercion import parse_message
from agentgym.policy.formats.contract import CallFormat
from agentgym.thoughts import THOUGHTS, begun_thought, without_last_thought

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

CHAT_TEMPLATE_REMEDY = (
    "Give one: policy.chat_template = FILE in a recipe, --policy-option chat_template=FILE on the command line, or "
    "tokenizer.chat_template in Python."
)
MAX_PATTERNS = 1024  # cached glue (the template's text around contents): the most patterns of roles and tools
Slot = tuple[int, str]  # the index of a message, and its part: "CONTENT", "NAME" or "ID"
Segment = list[int] | Slot | list[str | Slot]  # ids of glue, a content, or glue with names and ids in it
_PLAIN_NAME = re.compile(r"[\w.:-]{1,128}", re.ASCII)


class ImageEncoder(Protocol):
    """Encodes an image as its token ids, including markers; see agentgym.policy.image_tokens."""

    def encode(self, image: ImagePart) -> list[int]:
        """Return the ids of one image. Raises: PolicyError if the image cannot be read."""
        ...


class TemplateRenderer:
    """Implements Renderer over a tokenizer's own chat template.

    Args:
        tokenizer: a fast transformers tokenizer, with a chat template that supports the roles used.
        call_format: how the agent writes calls: an instance, not a name.
        template_options: further variables of the template, for example {"enable_thinking": True}.
        images: encodes images; None for a text-only model.

    Attributes:
        end_of_turn_id: the token that ends an agent's message without a call.
        end_ids: all tokens that end a message: the template's end tokens, after text and after calls, and the
            tokenizer's own.

    Raises: PolicyError at construction if the tokenizer or its template cannot be used token in, token out.
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerFast,
        call_format: CallFormat,
        *,
        template_options: dict[str, Any] | None = None,
        images: ImageEncoder | None = None,
    ) -> None:
        self.tokenizer, self.call_format, self.images = tokenizer, call_format, images
        self._options = dict(template_options or {})
        self._name = getattr(tokenizer, "name_or_path", "") or type(tokenizer).__name__
        if not getattr(tokenizer, "is_fast", False):
            raise PolicyError(
                f"The tokenizer of {self._name} is a slow one, which agentgym cannot use. Load it by AutoTokenizer "
                "with use_fast=True."
            )
        if not tokenizer.chat_template:
            raise PolicyError(f"The tokenizer of {self._name} has no chat template. {CHAT_TEMPLATE_REMEDY}")
        control = tuple(getattr(call_format, "control", ()))
        self.template = ChatTemplate(tokenizer, self._name, self._options, control)
        self._specials = self.template.specials
        self._outside = _without(tokenizer, lambda token: bool(token["content"].strip()))
        self._agent = _without(tokenizer, lambda token: token["special"] and token["content"] not in control)
        self._layout = CallLayout(self.template, tokenizer, call_format, self._options)
        self._glue: dict[Any, Any] = {}
        self.end_of_turn_id: int = tokenizer.convert_tokens_to_ids(self.template.ends[0])
        self._check_prefixes()

    def prompt(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> list[int]:
        """Return the ids of the opening messages and tools, up to where the agent begins to write.

        Raises: PolicyError if a tool schema contains a control token, or the template rejects these roles.
        """
        written = json.dumps(tools, ensure_ascii=False) if tools else ""
        key = (tuple(message.role for message in messages), written)
        if key not in self._glue:
            forged = [text for text in sorted(self._specials) if text in written]
            if forged or MARK.search(written):
                raise PolicyError(
                    f"The schema of a tool contains {forged or 'a placeholder of the renderer'}, which would act as a "
                    f"control token of {self._name}. Remove it from the tool's description."
                )
            if len(self._glue) >= MAX_PATTERNS:  # new tools in each task must not fill the memory
                self._glue.clear()
            self._glue[key] = self._split(self._opening_text(messages, tools), range(len(messages)))
        return self._fill(self._glue[key], messages)

    def observation(self, messages: Sequence[Message], *, ended: bool = True) -> list[int]:
        """Return the ids after the agent's end-of-turn token, through the results, up to where it writes again.

        Args:
            messages: results and replies, in order.
            ended: False if the agent's message was truncated before its end-of-turn token, which is then put first.
        """
        end, _, segments = self._between(messages)
        return ([] if ended else [end]) + self._fill(segments, messages)

    def after_turn(self, token_ids: Sequence[int], messages: Sequence[Message]) -> list[int]:
        """Return the ids after the agent's sampled tokens, through the results, up to where it writes again.

        The end token that the template expects comes first in two cases: the agent sampled no end token of the
        template; or it sampled a different one, and the expected one also begins the text that follows.
        """
        if self._layout.ids and any(message.role == "tool" for message in messages):
            messages = answering(self.parse(token_ids).calls, messages)
        end, begins_next, segments = self._between(messages)
        last = token_ids[-1] if token_ids else None
        ended = last == end or (last in self._template_end_ids and not begins_next)
        return ([] if ended else [end]) + self._fill(segments, messages)

    def _between(self, messages: Sequence[Message]) -> tuple[int, bool, list[Segment]]:
        """Return the end token before these messages, whether it also begins the next text, and the text after it."""
        roles = tuple(message.role for message in messages)
        if roles not in self._glue:
            end, begins_next, text = self.template.between(roles, roles.count("tool"))
            glue = self._split(self._layout.with_placeholders(text, roles), range(2, 2 + len(messages)))
            self._glue[roles] = int(self.tokenizer.convert_tokens_to_ids(end)), begins_next, glue
        between: tuple[int, bool, list[Segment]] = self._glue[roles]
        return between

    def parse(self, token_ids: Sequence[int], tools: Sequence[dict[str, Any]] = (), may_call: bool = True) -> Message:
        """Return the assistant message that the sampled ids encode, calls parsed. Never raises on model output.

        Args:
            tools: schemas that give the types of arguments, for call formats whose syntax has no types.
            may_call: whether the text may hold calls; required JSON holds none.
        """
        ids, ends = list(token_ids), self.end_ids | {self.tokenizer.pad_token_id}
        while ids and ids[-1] in ends:
            ids.pop()
        text = self.tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)
        text = self.begun_thought + text
        content, calls = parse_message(self.call_format, text, tools) if may_call else (text, ())
        if self.begun_thought:
            thought, _, rest = content.removeprefix(self.begun_thought).partition(THOUGHTS[self.begun_thought])
            content = content if thought.strip() else rest.strip()
        return Message("assistant", content, calls)

    def token_texts(self, token_ids: Sequence[int]) -> list[str]:
        """Return the text of each token; a part of a character is U+FFFD."""
        return [str(self.tokenizer.decode([token], skip_special_tokens=False)) for token in token_ids]

    def encode(self, message: Message) -> list[int]:
        """Return the ids that the agent would have sampled for this message, including the end-of-turn token."""
        text = self.written(message)
        if self.begun_thought and text.startswith(self.begun_thought):
            text = text.removeprefix(self.begun_thought)
        elif self.begun_thought:
            text = f"\n{THOUGHTS[self.begun_thought]}\n\n{text}"
        end = self.tokenizer.convert_tokens_to_ids(self.template.ends[-1 if message.calls else 0])
        return [*self._agent.encode(text, add_special_tokens=False).ids, end]

    def written(self, message: Message) -> str:
        """Return an assistant message as text: its content, then its calls in the call format.

        Raises: PolicyError if the syntax of the call format cannot express one of the calls.
        """
        try:
            if compose := getattr(self.call_format, "compose", None):
                return str(compose(message.written, message.calls))
            calls = self.call_format.render(message.calls) if message.calls else ""
        except ValueError as error:
            raise PolicyError(str(error)) from error
        if not calls:
            return message.written
        before, between, after = self._layout.spaces
        return (message.written + between if message.written else before) + calls + after

    def numbered(self, message: Message, earlier: int) -> Message:
        """Return an assistant's message with the ids that the model would give its calls.

        Args:
            earlier: how many calls the conversation held before.
        Returns: the same message if the model's calls have no ids.
        """
        return self._layout.numbered(message, earlier)

    def _opening_text(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> str:
        """Return the template's text of the opening messages, which names every tool.

        Many templates silently drop tools, so the model would never see them. If this template does, the call format's
        explanation is put in the system message, or in the first message if the template has no system role.
        """
        rows = placeholders(messages)
        text = self.template.render(rows, tools)
        names = (str(tool.get("function", tool).get("name", "")) for tool in tools)
        if not tools or (all(name in text for name in names) and text != self.template.render(rows, [])):
            return text
        explanation = self.call_format.explain(tools)
        if rows and rows[0]["role"] == "system":
            return self.template.render([{**rows[0], "content": f"{mark(0)}\n\n{explanation}"}, *rows[1:]], [])
        try:
            text = self.template.render([{"role": "system", "content": explanation}, *rows], [])
        except PolicyError:
            text = ""
        if explanation.strip() not in text and rows:
            text = self.template.render([{**rows[0], "content": f"{explanation}\n\n{mark(0)}"}, *rows[1:]], [])
        return text

    def _fill(self, segments: Sequence[Segment], messages: Sequence[Message]) -> list[int]:
        ids: list[int] = []
        for segment in segments:
            if isinstance(segment, list):
                ids += self._glue_with_names(segment, messages) if isinstance(segment[0], str | tuple) else segment
                continue
            message = messages[segment[0]]
            if message.role == "assistant":
                ids += self._agent.encode(self.written(message), add_special_tokens=False).ids
            else:
                ids += self._content(message)
        return ids

    def _glue_with_names(self, pieces: Sequence[str | Slot], messages: Sequence[Message]) -> list[int]:
        """Return the ids of template text with names of tools and ids of calls in it.

        They are encoded as one text, as in the template, unless this would create other special tokens.
        """
        names = [
            (messages[piece[0]].name or "") if piece[1] == "NAME" else self._layout.result_id(messages, piece[0])
            for piece in pieces
            if not isinstance(piece, str)
        ]
        key = ("names", *pieces, *names)
        if key not in self._glue:
            each = iter(names)
            parts = [
                (piece, self._encode_glue(piece))
                if isinstance(piece, str)
                else (name := next(each), self._outside.encode(name, add_special_tokens=False).ids)
                for piece in pieces
            ]
            apart = [token for _, ids in parts for token in ids]
            joined = self._encode_glue("".join(text for text, _ in parts))
            added = self.tokenizer.added_tokens_decoder
            alike = [token for token in joined if token in added] == [token for token in apart if token in added]
            if len(self._glue) >= MAX_PATTERNS:
                self._glue.clear()
            self._glue[key] = joined if alike and all(map(_PLAIN_NAME.fullmatch, names)) else apart
        ids: list[int] = self._glue[key]
        return ids

    def _content(self, message: Message) -> list[int]:
        """Return the ids of a message from outside: text without special tokens, and images as image tokens."""
        if not message.images:
            return list(self._outside.encode(message.text, add_special_tokens=False).ids)
        ids: list[int] = []
        for part in message.content:
            if isinstance(part, TextPart):
                ids += self._outside.encode(part.text, add_special_tokens=False).ids
            elif self.images is None or isinstance(part, str):
                raise PolicyError(
                    f"A message of role {message.role!r} contains an image, but this policy's renderer writes text "
                    "only. Use a policy that reads images ('vision', 'chat_api'), or an environment that answers in "
                    "text."
                )
            else:
                ids += self.images.encode(part)
        return ids

    def _split(self, text: str, places: range) -> list[Segment]:
        """Split template text at its placeholders, and encode the glue with special tokens.

        Raises: PolicyError if the content of a message is missing, repeated or out of order.
        """
        segments: list[Segment] = []
        contents, at, glue = list[int](), 0, list[str | Slot]()

        def end_glue() -> None:
            if any(not isinstance(piece, str) for piece in glue):
                segments.append(list(glue))
            elif glue:
                segments.append(self._encode_glue("".join(map(str, glue))))
            glue.clear()

        for placeholder in MARK.finditer(text):
            glue += [text[at : placeholder.start()]] * (placeholder.start() > at)
            index, part = int(placeholder[1]) - places.start, placeholder[2]
            at = placeholder.end()
            if part == "CONTENT":
                contents.append(int(placeholder[1]))
                end_glue()
                segments.append((index, part))
            else:  # some templates repeat the first call's name before every result
                glue.append((max(index, len(contents)) if part == "NAME" else index, part))
        glue += [text[at:]] * (at < len(text))
        end_glue()
        if contents != list(places):
            raise PolicyError(
                f"The chat template of {self._name} was given messages {list(places)}, but it writes {contents}, so "
                "their tokens cannot be told apart. Use a template that writes every message once and in order."
            )
        return segments

    def _encode_glue(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False)
        return ids

    @cached_property
    def end_ids(self) -> frozenset[int]:
        """The tokens that end a message."""
        return frozenset({*self._template_end_ids, self.tokenizer.eos_token_id} - {None})

    @cached_property
    def _template_end_ids(self) -> frozenset[int]:
        return frozenset(self.tokenizer.convert_tokens_to_ids([*self.template.ends]))

    @property
    def begun_thought(self) -> str:
        """The opening mark of a thought at the end of the prompt, as in some thinking models' templates; else ""."""
        return self.template.begun_thought

    def _check_prefixes(self) -> None:
        """Check that earlier messages keep their ids when the conversation continues. Raises: PolicyError.

        The template's text between the generation prompt and the agent's content, such as an empty or opened thought,
        is not compared: the agent's own tokens, thoughts included, replace that text.
        """
        calls = int(self.template.takes_calls or not self._may_answer_words)
        question, answer = self.template.opening(calls)
        result = placeholders([Message("tool", name="t")], start=2)
        prompt_text = self._before_thought([question])
        first_exchange = self._before_thought([question, answer, *result])
        if not first_exchange.startswith(prompt_text) or not anchor_in(first_exchange):
            raise self.template.unusable("rewrites the prompt once the agent has answered")
        _, second_answer = self.template.opening(calls, start=4)
        second_result = placeholders([Message("tool", name="t")], start=4)
        if not self.template.render(
            [question, answer, *result, second_answer, *second_result], [PROBE_TOOL]
        ).startswith(first_exchange):
            raise self.template.unusable("rewrites earlier turns when a new one begins")

    @cached_property
    def _may_answer_words(self) -> bool:
        """Whether the template also writes results after a message without calls."""
        try:
            self.template.render([*self.template.opening(0), *placeholders([Message("tool")], start=2)], [PROBE_TOOL])
        except PolicyError:
            return False
        return True

    def _before_thought(self, conversation: list[dict[str, Any]]) -> str:
        text = self.template.render(conversation, [PROBE_TOOL])
        if begun_thought(text) != self.begun_thought:
            raise self.template.unusable("opens a thought for the agent in some prompts and not in others")
        return without_last_thought(text)


def _without(tokenizer: PreTrainedTokenizerFast, dropped: Any) -> Tokenizer:
    """Return a copy of the tokenizer without the dropped added tokens: their text is then split like any other.

    `split_special_tokens=True` would keep added tokens that are not special, such as `<tool_call>`, and would change
    the shared tokenizer at every call, which is not thread-safe.

    The ids of added tokens are not read from the state but numbered on from the vocabulary. So a dropped token is
    replaced by a name that no text contains; otherwise the ids of later tokens would shift.
    """
    state = json.loads(tokenizer.backend_tokenizer.to_str())
    vocabulary, nonce = tokenizer.backend_tokenizer.get_vocab(with_added_tokens=False), secrets.token_hex(16)
    tokens = []
    for token in state["added_tokens"]:
        if not dropped(token):
            tokens.append(token)
        elif token["content"] not in vocabulary:
            tokens.append({**token, "content": f"{nonce}-{token['id']}", "normalized": False})
    state["added_tokens"] = tokens
    state["post_processor"] = state["truncation"] = state["padding"] = None
    copy = Tokenizer.from_str(json.dumps(state))
    for token in tokens:
        if copy.token_to_id(token["content"]) != token["id"]:
            raise PolicyError(
                f"The added token {token['content']!r} of {tokenizer.name_or_path or type(tokenizer).__name__} has "
                f"the id {token['id']}, but it gets {copy.token_to_id(token['content'])} in a copy of the tokenizer. "
                "Save the tokenizer again by save_pretrained, which numbers added tokens without gaps."
            )
    return copy
