"""Which third-party packages are optional, and the only modules that may import them at their top.

A heavy import lives in the one module that needs it. Inside a function, any module may import what belongs to an
extra, as long as it tells the user which extra to install.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.metadata import packages_distributions

from source_tree import ROOT, project

HEAVY_MODULES = {
    "agentgym.cli.browse": "view",
    "agentgym.cluster.connections": "serve",
    "agentgym.cluster.environment_server": "serve",
    "agentgym.interop.ascii_json": "serve",
    "agentgym.interop.gateway.application": "serve",
    "agentgym.bridges.gymnasium.any_text": "gymnasium",
    "agentgym.bridges.gymnasium.environment": "gymnasium",
    "agentgym.bridges.mcp.http": "serve",
    "agentgym.bridges.inspect.conversation": "inspect",  # imported by Inspect alone
    "agentgym.bridges.inspect.sandbox": "inspect",
    "agentgym.bridges.inspect.task": "inspect",
    "agentgym.bridges.openenv.connection": "openenv",
    "agentgym.bridges.openenv.server": "openenv",
    "agentgym.bridges.verifiers.taskset": "verifiers",  # imported by verifiers alone
    "agentgym.bridges.verifiers.worker": "verifiers",  # runs in its environment
    "agentgym.bridges.gymnasium.text_env": "gymnasium",
    "agentgym.policy.adapters": "train",
    "agentgym.policy.checkpoint": "train",
    "agentgym.policy.local": "train",
    "agentgym.policy.quantization": "train",
    "agentgym.methods.logit_hooks.nlpo": "train",
    "agentgym.methods.token_values.guided": "train",
    "agentgym.methods.token_values.networks": "train",
    "agentgym.policy.decode_request": "train",
    "agentgym.policy.decoding": "train",
    "agentgym.policy.grouped_attention": "train",
    "agentgym.policy.lora_forward": "train",
    "agentgym.policy.key_values": "train",
    "agentgym.policy.merged_copy": "train",
    "agentgym.policy.chat_template": "train",
    "agentgym.policy.model_check": "train",
    "agentgym.policy.rendering": "train",
    "agentgym.policy.role_adapters": "train",
    "agentgym.policy.sampling": "train",
    "agentgym.policy.prefill": "train",
    "agentgym.policy.scoring": "train",
    "agentgym.policy.stopping": "train",
    "agentgym.bridges.gguf.convert": "train",
    "agentgym.policy.template_check": "train",
    "agentgym.policy.training_template": "train",
    "agentgym.policy.tiny": "train",
    "agentgym.policy.device": "train",
    "agentgym.policy.transformers": "train",
    "agentgym.policy.vision": "train",
    "agentgym.policy.vllm": "train",  # renders token ids itself, so that they are exact
    "agentgym.policy.vllm_images": "train",  # likewise
    "agentgym.policy.vllm_plugin": "vllm",  # runs in the server's environment
    "agentgym.sandboxes.grounding.drawing": "vision",  # these four for types alone
    "agentgym.sandboxes.grounding.environment": "vision",
    "agentgym.sandboxes.grounding.transition": "vision",
    "agentgym.sandboxes.grounding.views": "vision",
    "agentgym.testing.objectives": "train",
    "agentgym.training.stages.streaming": "train",
    "agentgym.training.stages.time_plan": "train",
    "agentgym.training.asynchronous.stream": "train",
    "agentgym.training.monitoring.callbacks": "train",
    "agentgym.training.monitoring.start_distance": "train",
    "agentgym.training.model.model_failures": "train",
    "agentgym.training.extension": "train",
    "agentgym.training.checks.learning_rates": "train",
    "agentgym.training.checks.memory_plan": "train",
    "agentgym.training.model.models": "train",
    "agentgym.training.model.grpo_config": "train",
    "agentgym.methods.signals.turn_scorer": "train",
    "agentgym.training.model.sharding": "train",
    "agentgym.training.parts": "train",
    "agentgym.training.processes": "train",
    "agentgym.training.loss.grpo_batches": "train",
    "agentgym.training.imitation": "train",
    "agentgym.training.loss.frozen_head": "train",
    "agentgym.training.loss.labelled_head": "train",
    "agentgym.training.loss.microbatches": "train",
    "agentgym.training.loss.shared_prefixes": "train",
    "agentgym.methods.direct_advantage": "train",
    "agentgym.methods.token_values.conservative_q": "train",
    "agentgym.methods.dqn": "train",
    "agentgym.methods.token_values.fitting": "train",
    "agentgym.methods.stored_turns.turn_logprobs": "train",
    "agentgym.training.objectives": "train",
    "agentgym.training.objectives.contract": "train",
    "agentgym.training.objectives.planned": "train",
    "agentgym.methods.objectives.apo": "train",
    "agentgym.methods.objectives.grao": "train",
    "agentgym.methods.objectives.gspo": "train",
    "agentgym.methods.objectives.luspo": "train",
    "agentgym.training.objectives.grouped": "train",
    "agentgym.methods.objectives.nft": "train",
    "agentgym.methods.objectives.pacs": "train",
    "agentgym.methods.objectives.pairwise_ppo": "train",
    "agentgym.methods.objectives.policy_gradient": "train",
    "agentgym.methods.objectives.stable_reinforce": "train",
    "agentgym.training.loss.policy_loss": "train",
    "agentgym.methods.scale_plan.measuring": "train",
    "agentgym.training.loss.frozen_model": "train",
    "agentgym.training.experts": "train",
    "agentgym.training.stages.reinforce_parts": "train",
    "agentgym.training.stages.reinforce": "train",
    "agentgym.training.stages.update_parts": "train",
    "agentgym.methods.loss_terms.expert_sft": "train",
    "agentgym.methods.loss_terms.reference_kl": "train",
    "agentgym.methods.loss_terms.teacher_kl": "train",
    "agentgym.methods.snr_learning_rate": "train",
    "agentgym.methods.thought_correction": "train",
    "agentgym.training.checks.parts": "train",
    "agentgym.methods.objectives.critique_grpo": "train",
    "agentgym.methods.objectives.decoupled_ppo": "train",
    "agentgym.methods.objectives.topr": "train",
    "agentgym.training.objectives.trl_losses": "train",
    "agentgym.methods.loss_terms.entropy_band": "train",
    "agentgym.methods.loss_terms.entropy_bonus": "train",
    "agentgym.methods.muon": "train",
    "agentgym.training.checks.preflight": "train",
    "agentgym.training.run": "train",
    "agentgym.policy.vllm_training": "train",
    "agentgym.policy.vllm_check": "train",
    "agentgym.methods.preferences.losses": "train",
    "agentgym.training.loss.scored_rows": "train",
    "agentgym.training.stages.row_groups": "train",
    "agentgym.training.stages.collect": "train",
    "agentgym.methods.preferences.comparing": "train",
    "agentgym.training.stages.context": "train",
    "agentgym.training.stages.stored_episodes": "train",
    "agentgym.methods.preferences.prefer": "train",
    "agentgym.methods.preferences.rank": "train",
    "agentgym.methods.step_tasks": "train",
    "agentgym.methods.generate": "train",
    "agentgym.training.stages.selection": "train",
    "agentgym.methods.token_values.stages": "train",
    "agentgym.training.stages.measure": "train",
    "agentgym.training.stages.contract": "train",
    "agentgym.training.stages.plan": "train",
    "agentgym.training.stages.starting_model": "train",
    "agentgym.training.stages.warm_start": "train",
    "agentgym.policy.vision_inputs": "train",
    "agentgym.methods.signals.hidden_states": "train",
    "agentgym.methods.signals.state_flow": "train",
    "agentgym.methods.signals.state_ranks": "train",
    "agentgym.training.signals.selection": "train",
    "agentgym.methods.signals.turn_critic": "train",
    "agentgym.methods.signals.hindsight": "train",
    "agentgym.training.signals.policy_pass": "train",
    "agentgym.methods.signals.contributions": "train",
    "agentgym.methods.signals.token_critic": "train",
    "agentgym.methods.role_order": "train",
    "agentgym.training.loss.row_data": "train",
    "agentgym.training.loss.step_batch": "train",
    "agentgym.policy.separate_rows": "train",
    "agentgym.policy.token_masks": "train",
    "agentgym.training.trained_policy": "train",
    "agentgym.training.turn_grpo": "train",
    "agentgym.viewer.application": "view",
}


def normal(name: str) -> str:
    """A distribution's normalised name: `Farama_Notifications` and `farama-notifications` are one."""
    return re.sub(r"[-_.]+", "-", name).lower()


def distributions_in(requirements: list[str]) -> set[str]:
    """Normalised names of a requirement list."""
    return {normal(re.match(r"[\w.-]+", line).group()) for line in requirements}  # type: ignore[union-attr]


def with_other_extras(requirements: list[str]) -> list[str]:
    """A requirement list, and the lists of the extras that it names, as `agentgym-core[train]`."""
    named = [match[1] for line in requirements if (match := re.match(r"agentgym-core\[(\w+)\]", line))]
    return [*requirements, *(line for extra in named for line in project()["project"]["optional-dependencies"][extra])]


@cache
def installed() -> dict[str, frozenset[str]]:
    """The normalised names of the distributions that offer each top-level import name here."""
    return {name: frozenset(map(normal, owners)) for name, owners in packages_distributions().items()}


IMPORTED_AS = {"opentelemetry-sdk": "opentelemetry"}


@cache
def import_names(distributions: frozenset[str]) -> set[str]:
    """Top-level import names that distributions offer; one that is not installed goes by its own name."""
    offered = {name for name, owners in installed().items() if distributions & owners}
    return offered | {IMPORTED_AS.get(name, name.replace("-", "_")) for name in distributions}


CORE = import_names(frozenset(distributions_in(project()["project"]["dependencies"])))
EXTRAS = {
    extra: import_names(frozenset(distributions_in(with_other_extras(requirements)) - {"agentgym-core"}))
    for extra, requirements in project()["project"]["optional-dependencies"].items()
    if extra not in ("dev", "all")
}
WITHOUT_DEPENDENCIES = re.findall(r"--no-deps ([\w ]+)", (ROOT / "Makefile").read_text(encoding="utf-8"))
"""What `make setup` installs beside the extra `dev`, for a part of it that needs nothing else."""
DEV = import_names(frozenset(distributions_in(project()["project"]["optional-dependencies"]["dev"])))
DEV |= {name for names in WITHOUT_DEPENDENCIES for name in names.split()}
OPTIONAL = set().union(*EXTRAS.values()) - CORE
