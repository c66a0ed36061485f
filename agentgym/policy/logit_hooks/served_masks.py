"""Logit hooks on vLLM: the server computes the masks, and the client recomputes them for the record.

A request carries the settings of its grammar, and a logits processor in the server follows the tokens through the same
automaton. The answer does not say which tokens were masked, so the client recomputes the masks, and so verifies the
server.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from agentgym.errors import PolicyError
from agentgym.policy.logit_hooks.contract import LogitHook, note_mask
from agentgym.policy.logit_hooks.hermes_masks import HermesTurns
from agentgym.policy.logit_hooks.token_automaton import AutomatonHook
from agentgym.registry import load
from agentgym.trajectory import TokenMask

PLUGIN = "agentgym.policy.vllm_plugin:GrammarMasks"
"""The value of --logits-processors for starting a server."""
GRAMMAR, PROBE = "agentgym_grammar", "agentgym_probe"
"""Names of the extra arguments of a request (vllm_xargs)."""
OTHER_TOKENS, SAME_TOKENS = 0, 1
"""The only token that a server lets follow a probe that names another tokenizer, or the server's own."""
REMEDY = (
    f"Start it with --logits-processors {PLUGIN} and VLLM_USE_V2_MODEL_RUNNER=0, in an environment that has agentgym "
    "beside vLLM"
)
_MARK = "has_vllm_form"
Factory = TypeVar("Factory", bound=Callable[..., Any])


def with_vllm_form(factory: Factory) -> Factory:
    """Mark a hook factory that makes only AutomatonHooks over HermesTurns, which a server can make too."""
    setattr(factory, _MARK, True)
    return factory


def require_vllm_form(name: str) -> None:
    """Raise PolicyError if a vLLM server cannot compute this hook's masks; UnknownNameError if the name is unknown."""
    if not getattr(load("logit_hooks", name), _MARK, False):
        raise PolicyError(
            f"The logit hook {name!r} cannot be used with vLLM: it runs in this process before each token, whereas a "
            "server can only apply the masks of a grammar, as known_tools and protocol do. Leave the hook out, or "
            "sample with transformers."
        )


class ServedGrammar(NamedTuple):
    """The grammar of a request's masks.

    Attributes:
        settings: the settings of HermesTurns.
        end_ids: tokens that end a turn.
    """

    settings: str
    end_ids: tuple[int, ...]

    def grammar(self) -> HermesTurns:
        return HermesTurns(**json.loads(self.settings))


def request_options(hook: LogitHook) -> dict[str, Any]:
    """Return the fields of a completion request that make the server apply the masks of a hook. Raises: PolicyError."""
    if not isinstance(hook, AutomatonHook):
        raise PolicyError(
            f"The logit hook {type(hook).__name__} cannot be used with vLLM, because it is not an AutomatonHook. "
            "Derive it from AutomatonHook, or sample with transformers."
        )
    automaton = hook.automaton
    ends = list(automaton.table.end_ids)
    grammar = json.dumps({"settings": dict(automaton.grammar.settings), "end_ids": ends})
    # Without ignore_eos the server would also end a turn at tokens that the grammar regards as text.
    return {"vllm_xargs": {GRAMMAR: grammar}, "ignore_eos": True, "stop_token_ids": ends}


def probe_options(hook: LogitHook | None = None) -> dict[str, Any]:
    """Return the fields of a completion request that show whether the server applies masks, see `check_probe`."""
    tokens = hook.automaton.table.fingerprint if isinstance(hook, AutomatonHook) else ""
    return {"vllm_xargs": {PROBE: tokens}, "max_tokens": 1, "temperature": 1.0, "logprobs": 0, "ignore_eos": True}


def check_probe(token: int, logprob: float) -> bool:
    """Return whether a probe's answer confirms its tokenizer. Raises: PolicyError if the server applies no masks."""
    if logprob != 0.0 or token not in (OTHER_TOKENS, SAME_TOKENS):
        raise PolicyError(f"The vLLM server does not apply the masks of logit hooks. {REMEDY}.")
    return token == SAME_TOKENS


def grammar_in(extra_arguments: Mapping[str, Any] | None) -> ServedGrammar | None:
    """Return the grammar of a request on the server; None if it has none. Raises: ValueError if it cannot be read."""
    text = (extra_arguments or {}).get(GRAMMAR)
    if text is None:
        return None
    try:
        data = json.loads(text)
        served = ServedGrammar(
            json.dumps(data["settings"], sort_keys=True), tuple(int(token) for token in data["end_ids"])
        )
        served.grammar()
    except (TypeError, ValueError, LookupError) as error:
        raise ValueError(f"{GRAMMAR} is not a grammar of agentgym: {type(error).__name__}: {error}") from error
    return served


def masks_of(hook: LogitHook, tokens: Sequence[int]) -> list[tuple[int, int, TokenMask]]:
    """Return the masks under which a server sampled the tokens of a turn, as in agentgym.Turn.

    Raises: PolicyError if a token is not allowed at its position.
    """
    masks: list[tuple[int, int, TokenMask]] = []
    for at, token in enumerate(tokens):
        if (mask := hook(tokens[:at])) is None:
            continue
        if (token in mask.ids) != mask.allowed:
            raise PolicyError(
                f"The vLLM server sampled the token {token}, which the logit hook forbids, so its log-probabilities "
                f"are not those of the masked distribution. {REMEDY}."
            )
        note_mask(masks, at, mask)
    return masks
