"""Logit hooks: restrict which tokens may be sampled next, per request.

The recorded log-probabilities refer to the masked distribution. The masks are recorded with the turn, so that a trainer
can compute the same distribution. A hook that changes logits leaves no such record, so its turns are not trained on.

contract.py        the contract of a hook, and how to make one by its registered name
token_automaton.py masks from a grammar of characters
hermes_masks.py    hooks over a grammar of the call format hermes
grammars.py        grammars for any call format
constraint_hooks.py  hooks that enforce the constraints of a request
served_masks.py    the form of a grammar's masks for a vLLM server

The hooks themselves are in methods.
"""

from agentgym.moved import moved_names
from agentgym.policy.logit_hooks.contract import HookMaker, LogitHook
from agentgym.policy.logit_hooks.hermes_masks import HermesMasks
from agentgym.policy.logit_hooks.served_masks import with_vllm_form

__all__ = ["HermesMasks", "HookMaker", "LogitHook", "with_vllm_form"]


__getattr__ = moved_names(__name__)
