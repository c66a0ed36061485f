"""A tiny tokenizer, renderer and model, made once."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

QUERY = {
    "type": "function",
    "function": {
        "name": "query",
        "description": "Run one SELECT.",
        "parameters": {"type": "object", "properties": {"sql": {"type": "string"}}, "required": ["sql"]},
    },
}
TEXTS = [
    "query sql SELECT name FROM customers WHERE city = 'Oslo' answer text",
    "How many orders did Alice place in 2024? total 1234",
    '<tool_call>{"name": "query", "arguments": {"sql": "SELECT count(*) FROM order_items"}}</tool_call>',
] * 4


@pytest.fixture(scope="session")
def tools():
    return [QUERY]


@pytest.fixture(scope="session")
def tokenizer():
    from agentgym.policy import make_tokenizer

    return make_tokenizer(TEXTS, 400)


@pytest.fixture(scope="session")
def renderer(tokenizer):
    from agentgym.policy import Hermes, TemplateRenderer

    return TemplateRenderer(tokenizer, Hermes())


@pytest.fixture(scope="session")
def model(tokenizer):
    """Small, and with larger weights than at a usual start, so that its distribution is far from flat."""
    from agentgym.policy import make_model

    tiny_model = make_model(tokenizer, hidden=64, layers=2, heads=4, kv_heads=2, head_dim=32)
    with torch.no_grad():
        for parameter in tiny_model.parameters():
            if parameter.dim() == 2:
                parameter.mul_(4.0)
    return tiny_model
