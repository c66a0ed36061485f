"""The fields of requests: those without an effect here, those that the run decides, and the refusal of all others."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from .chat import invalid, list_of, object_of, text_of

MAX_STOPS, MAX_STOP_CHARS = 16, 256
WITHOUT_EFFECT = frozenset(
    {
        # accounts, caches, storage and speed of the provider
        "metadata",
        "user",
        "store",
        "service_tier",
        "serviceTier",
        "safety_identifier",
        "prompt_cache_key",
        "prompt_cache_retention",
        "prompt_cache_options",
        "cache_control",
        "cachedContent",
        "client_metadata",
        "inference_geo",
        "labels",
        "betas",
        "anthropic_beta",
        "speed",
        "provider",
        "usage",
        "prediction",
        "include",
        # the provider's own tools and filters, of which there are none
        "container",
        "mcp_servers",
        "web_search_options",
        "max_tool_calls",
        "safetySettings",
        "moderation",
        # the history is read as it is sent
        "context_management",
    }
)
"""Fields that concern nothing that the policy writes."""
SAMPLING = ("temperature", "top_p", "topP", "top_k", "topK", "min_p", "seed")
OF_THE_RUN = frozenset(
    [
        "model",
        "reasoning_effort",
        "reasoning",
        "thinking",
        "thinkingConfig",
        "verbosity",
        "effort",
        "enable_thinking",
        "chat_template_kwargs",
        "preserve_thinking",
    ]
).union(SAMPLING)
"""How the policy samples and whether it thinks: the run decides, since it trains on the log-probabilities."""
_NEUTRAL: Mapping[str, tuple[Any, ...]] = {
    "n": (1,),
    "candidateCount": (1,),
    "frequency_penalty": (0,),
    "presence_penalty": (0,),
    "frequencyPenalty": (0,),
    "presencePenalty": (0,),
    "repetition_penalty": (1,),
    "logit_bias": ({},),
    "modalities": (["text"],),
    "responseModalities": (["TEXT"], ["text"]),
    "truncation": ("disabled",),
    "background": (False,),
    "top_logprobs": (0,),
    "logprobs": (0,),
    "stream": (False,),
    "audioTimestamp": (False,),
}
"""Fields that are refused unless they ask for what happens anyway, with the values that do."""


def check_fields(given: Mapping[str, Any], read: Collection[str], where: str = "") -> None:
    """Check that every field of a request is read or has no effect. Raises: ServerRefusal naming one that is neither.

    Args:
        read: the fields that the caller reads. where: the object that holds the fields, for the message.
    """
    for name, value in given.items():
        if name in read or name in WITHOUT_EFFECT or name in OF_THE_RUN or value is None:
            continue
        neutral = _NEUTRAL.get(name, ())
        if not any(value == each and isinstance(value, bool) == isinstance(each, bool) for each in neutral):
            allowed = f"Give {' or '.join(map(repr, neutral))}, or leave it out." if neutral else "Leave it out."
            raise invalid(f"{where}{name} = {value!r:.80} is not supported. {allowed}")


def stops_of(value: Any, name: str) -> tuple[str, ...]:
    """Return the texts that end a message. Raises: ServerRefusal."""
    given = [value] if isinstance(value, str) else list_of(value or [], name)
    stops = tuple(text_of(each, f"A text of {name}") for each in given)
    if len(stops) > MAX_STOPS or not all(0 < len(stop) <= MAX_STOP_CHARS for stop in stops):
        raise invalid(f"{name} must have at most {MAX_STOPS} texts of 1 to {MAX_STOP_CHARS} characters.")
    return stops


def response_format_of(value: Any, name: str) -> Mapping[str, Any] | None:
    """Return the JSON Schema that OpenAI's response_format asks for; None for text. Raises: ServerRefusal."""
    if value is None:
        return None
    given = object_of(value, name)
    kind = given.get("type")
    if kind == "json_schema":
        schema = object_of(given.get("json_schema", given), name).get("schema")
        return object_of(schema or {}, f"The schema of {name}")
    if kind not in ("text", "json_object"):
        raise invalid(f"{name} has the type {kind!r:.40}. Give text, json_object or json_schema.")
    return {} if kind == "json_object" else None


def asked_sampling(given: Mapping[str, Any]) -> dict[str, float]:
    """Return the sampling that a request asks for. Raises: ServerRefusal if it is not a number."""
    sampling = {name: given[name] for name in SAMPLING if given.get(name) is not None}
    for name, value in sampling.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise invalid(f"{name} must be a number, not {value!r:.40}.")
    return sampling


def flag_of(value: Any, name: str, default: bool) -> bool:
    """Return a field that is true or false. Raises: ServerRefusal."""
    if value is None:
        return default
    if not isinstance(value, bool):
        raise invalid(f"{name} must be true or false, not {value!r:.40}.")
    return value


@dataclass(frozen=True, slots=True)
class ToolChoice:
    """What a request says about the calls of its answer.

    Attributes:
        required: whether one of the tools must be called.
        names: the tools that must, or may, be called, as the program names them; None for all.
    """

    required: bool = False
    names: tuple[str, ...] | None = None


NO_TOOLS = ToolChoice(names=())


def openai_choice(value: Any) -> ToolChoice:
    """Return the tool_choice of OpenAI's APIs. Raises: ServerRefusal."""
    modes = {None: ToolChoice(), "auto": ToolChoice(), "none": NO_TOOLS, "required": ToolChoice(required=True)}
    if value is None or isinstance(value, str):
        if value not in modes:
            raise invalid(f"tool_choice = {value!r:.40} is not known. Give none, auto, required or a tool.")
        return modes[value]
    given = object_of(value, "tool_choice")
    kind = given.get("type")
    if kind in ("auto", "none", "required"):
        return modes[kind]
    if kind == "allowed_tools":
        allowed = object_of(given.get("allowed_tools", given), "allowed_tools")
        names = tuple(_tool_name(tool) for tool in list_of(allowed.get("tools"), "The tools of allowed_tools"))
        return ToolChoice(allowed.get("mode") == "required", names)
    if kind not in ("function", "custom"):
        raise invalid(f"tool_choice has the type {kind!r:.40}, which is not supported. Name a function.")
    return ToolChoice(True, (_tool_name(given),))


def _tool_name(given: Any) -> str:
    tool = object_of(given, "A tool of tool_choice")
    kind = tool.get("type")
    nested = tool.get(kind, tool) if isinstance(kind, str) else tool
    return text_of(object_of(nested, "A tool of tool_choice").get("name"), "The name of a tool of tool_choice")
