"""Policies: served, local, API and scripted ones behind one contract, and the call formats that they write.

The names below are loaded when first used: importing this package loads no torch and no transformers.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from agentgym.policy.contract import Policy, Renderer, Reply, Request, Sampling

if TYPE_CHECKING:
    from agentgym.policy.chat_api import ChatApiPolicy
    from agentgym.policy.formats.contract import CallFormat
    from agentgym.policy.formats.hermes import Hermes
    from agentgym.policy.formats.tags import Tags
    from agentgym.policy.http import JsonEndpoint, RetryPolicy
    from agentgym.policy.image_tokens import ImageTokens
    from agentgym.policy.rendering import TemplateRenderer
    from agentgym.policy.scripted import ScriptedPolicy
    from agentgym.policy.tiny import make_model, make_tokenizer
    from agentgym.policy.tiny_vision import make_processor, make_vision_model
    from agentgym.policy.transformers import TransformersPolicy
    from agentgym.policy.transformers import load as load_transformers_policy
    from agentgym.policy.vision import VisionPolicy
    from agentgym.policy.vision import load as load_vision_policy
    from agentgym.policy.vllm import VllmPolicy, save_untied

_LAZY = {
    "CallFormat": "formats.contract.CallFormat",
    "ChatApiPolicy": "chat_api.ChatApiPolicy",
    "Hermes": "formats.hermes.Hermes",
    "ImageTokens": "image_tokens.ImageTokens",
    "JsonEndpoint": "http.JsonEndpoint",
    "RetryPolicy": "http.RetryPolicy",
    "ScriptedPolicy": "scripted.ScriptedPolicy",
    "Tags": "formats.tags.Tags",
    "TemplateRenderer": "rendering.TemplateRenderer",
    "TransformersPolicy": "transformers.TransformersPolicy",
    "VisionPolicy": "vision.VisionPolicy",
    "VllmPolicy": "vllm.VllmPolicy",
    "load_transformers_policy": "transformers.load",
    "load_vision_policy": "vision.load",
    "make_model": "tiny.make_model",
    "make_processor": "tiny_vision.make_processor",
    "make_tokenizer": "tiny.make_tokenizer",
    "make_vision_model": "tiny_vision.make_vision_model",
    "save_untied": "vllm.save_untied",
}

__all__ = [
    "CallFormat",
    "ChatApiPolicy",
    "Hermes",
    "ImageTokens",
    "JsonEndpoint",
    "Policy",
    "Renderer",
    "Reply",
    "Request",
    "RetryPolicy",
    "Sampling",
    "ScriptedPolicy",
    "Tags",
    "TemplateRenderer",
    "TransformersPolicy",
    "VisionPolicy",
    "VllmPolicy",
    "load_transformers_policy",
    "load_vision_policy",
    "make_model",
    "make_processor",
    "make_tokenizer",
    "make_vision_model",
    "save_untied",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'agentgym.policy' has no attribute {name!r}")
    module, _, attribute = _LAZY[name].rpartition(".")
    value = getattr(import_module(f"agentgym.policy.{module}"), attribute)
    globals()[name] = value
    return value
