"""Logit hooks: which tokens may be sampled next, decided for every request.

The log-probabilities that are recorded are those of the masked distribution. The masks are recorded with the turn, and
a trainer computes the same. A hook that changes logits leaves no such record, so nothing is trained under it.

contract.py        what a hook is, and how one is made by its registered name
token_automaton.py masks from a grammar of characters
hermes_turns.py    the grammar of a turn in the call format `hermes`
hermes_masks.py    hooks over that grammar
tilts.py           hooks that change logits instead of refusing tokens
value_networks.py  networks that say what the next token is worth
value_guided.py    the logits plus what such a network says
served_masks.py    the form of a grammar's masks for a vLLM server

The hooks themselves are in methods/logit_hooks, but for `value_guided`.
"""

from agentgym.policy.logit_hooks.contract import HookMaker, LogitHook, make_hook
from agentgym.policy.logit_hooks.hermes_masks import HermesMasks
from agentgym.policy.logit_hooks.served_masks import with_vllm_form
from agentgym.trajectory import TokenMask

__all__ = ["HermesMasks", "HookMaker", "LogitHook", "TokenMask", "make_hook", "with_vllm_form"]
