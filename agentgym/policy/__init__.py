"""Policies: served, local, API and scripted ones behind one contract, and the formats of their calls.

The names below are loaded when first used: importing this package loads no torch and no transformers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentgym.moved import lazy_names
from agentgym.policy.contract import Renderer, Reply, Request, Sampling

if TYPE_CHECKING:
    from agentgym.policy import formats
    from agentgym.policy.account import open_account
    from agentgym.policy.formats.contract import CallFormat
    from agentgym.policy.formats.hermes import Hermes
    from agentgym.policy.http import JsonEndpoint, RetryPolicy
    from agentgym.policy.image_tokens import ImageTokens
    from agentgym.policy.pool import PolicyPool
    from agentgym.policy.rendering import TemplateRenderer
    from agentgym.policy.tiny import make_model, make_processor, make_tokenizer, make_vision_model
    from agentgym.policy.transformers import TransformersPolicy
    from agentgym.policy.vision import VisionPolicy
    from agentgym.policy.vllm import VllmPolicy

_HOME = {
    "CallFormat": "formats.contract",
    "Hermes": "formats.hermes",
    "ImageTokens": "image_tokens",
    "JsonEndpoint": "http",
    "RetryPolicy": "http",
    "PolicyPool": "pool",
    "TemplateRenderer": "rendering",
    "TransformersPolicy": "transformers",
    "VisionPolicy": "vision",
    "VllmPolicy": "vllm",
    "open_account": "account",
    "make_model": "tiny",
    "make_processor": "tiny",
    "make_tokenizer": "tiny",
    "make_vision_model": "tiny",
}

__all__ = [
    "CallFormat",
    "Hermes",
    "ImageTokens",
    "JsonEndpoint",
    "PolicyPool",
    "Renderer",
    "Reply",
    "Request",
    "RetryPolicy",
    "Sampling",
    "TemplateRenderer",
    "TransformersPolicy",
    "VisionPolicy",
    "VllmPolicy",
    "formats",
    "make_model",
    "make_processor",
    "make_tokenizer",
    "make_vision_model",
    "open_account",
]


__getattr__ = lazy_names(__name__, _HOME)
