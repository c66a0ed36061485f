"""The model that training starts from: a checkpoint, or a small new model with a tokenizer that is trained on the
demonstrations' text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from agentgym import registry
from agentgym.policy.formats.choice import call_format_for
from agentgym.policy.formats.contract import CallFormat
from agentgym.policy.grouped_attention import use_grouped_attention
from agentgym.policy.tiny import make_model, make_tokenizer
from agentgym.training.model.models import load_model
from agentgym.training.stages.context import Learner, RunContext
from agentgym.trajectory.record import Trajectory


def starting_learner(context: RunContext) -> Learner:
    """Return the recipe's model as it is before any stage."""
    recipe = context.recipe
    if recipe.policy.path is not None:
        return context.learner(*load_model(recipe.policy, context.weights_device, recipe.seed))
    return _tiny_learner(context, context.processes.share(lambda: context.demonstrate()))


def _tiny_learner(context: RunContext, examples: Sequence[Trajectory]) -> Learner:
    """Make the recipe's [policy.tiny]: random weights, and a tokenizer trained on the demonstrations' text."""
    policy = context.recipe.policy
    assert policy.tiny is not None  # a recipe has policy.path or [policy.tiny]
    shape, call_format = policy.tiny.model_dump(), call_format_for(None, policy.call_format)
    tokenizer = make_tokenizer(texts(examples, call_format), vocab_size=shape.pop("vocabulary"))
    model = make_model(tokenizer, seed=context.recipe.seed, **shape).to(context.weights_device)
    use_grouped_attention(model)  # as a model that is loaded does: a resumed run must compute the same
    return context.learner(model, tokenizer)


def texts(trajectories: Iterable[Trajectory], call_format: CallFormat) -> list[str]:
    """Return messages, calls as the agent writes them, and tool signatures, as text to train a tokenizer on."""
    passages = []
    for trajectory in trajectories:
        if trajectory.tools is not None:
            passages += [json.dumps(schema, ensure_ascii=False) for schema in trajectory.tools]
        else:
            tools = registry.prototype(trajectory.task.environment).tools.values()
            passages += [tool.signature(choices=False) for tool in tools]  # keep: existing tokenizers depend on it
        for message in trajectory.messages():
            passages.append(message.written)
            if message.calls:
                passages.append(call_format.render(message.calls))
    return [passage for passage in passages if passage]
