"""How packages find their public names on first use. Moved names stay available for one release, with a warning.

`MOVED` is the one table of names that have moved. A package looks here in its `__getattr__`
(`lazy_names`, `moved_names`). A package that is gone as a whole is found by `MovedPackages`, which `agentgym` puts
before Python's finders. The new places are strings, imported when used, so the core depends on none of them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from pkgutil import resolve_name
from types import ModuleType
from typing import Any

__all__ = ["lazy_names"]

MOVED: dict[str, str] = {
    "agentgym.SPLITS": "agentgym.TaskSet.SPLITS",
    "agentgym.task_from_json": "agentgym.Task.from_json",
    "agentgym.task_to_json": "agentgym.Task.to_json",
    "agentgym.training.gatherers.background_play": "agentgym.training.gatherers.GathererWrapper.background_play",
    "agentgym.training.gatherers.fails_whole": "agentgym.training.gatherers.GatheredGroup.fails_whole",
    "agentgym.training.gatherers.gather_metrics": "agentgym.training.gatherers.GatheredGroup.metrics",
    "agentgym.training.gatherers.group_rewards": "agentgym.training.gatherers.GathererWrapper.group_rewards",
    "agentgym.training.gatherers.in_groups": "agentgym.training.gatherers.GatheredGroup.split",
    "agentgym.training.gatherers.success_of": "agentgym.Trajectory.success_or_reward",
    "agentgym.training.gatherers.StepRollouts": "agentgym.training.Rollouts",
    "agentgym.training.gatherers.untrained": "agentgym.training.gatherers.GatheredGroup.untrained",
    "agentgym.credit.Decay": "agentgym.options.Share",
    "agentgym.credit.PositiveWeight": "agentgym.options.Positive",
    "agentgym.options.Rate": "agentgym.options.Positive",
    "agentgym.options.Seconds": "agentgym.options.Positive",
    "agentgym.environment.unwrapped": "agentgym.environment.EnvironmentWrapper.unwrap",
    "agentgym.interop.seeded_tasks": "agentgym.TaskSet.seeded",
    "agentgym.rollout.tree_labels": "agentgym.rollout.Fork.tree_labels",
    "agentgym.tools.collect_tools": "agentgym.Tool.collect",
    "agentgym.tools.render_output": "agentgym.Tool.render_output",
    "agentgym.trajectory.training_help": "agentgym.trajectory.PromptAddition.training_help",
    "agentgym.training.samplers.Curriculum": "agentgym.methods.supply.curriculum.Curriculum",
    "agentgym.training.stages.learn_from_groups": "agentgym.training.stages.RowGroup.train",
    "agentgym.training.stages.score_rows": "agentgym.training.stages.RowGroup.score",
    "agentgym.cli.offer_tasks": "agentgym.cli.OfferOptions.open",
    "agentgym.task.BOOKKEEPING": "agentgym.Task.BOOKKEEPING",
    "agentgym.task.INSTRUCTIONS": "agentgym.task.Origin.INSTRUCTIONS",
    "agentgym.task.SPLITS": "agentgym.TaskSet.SPLITS",
    "agentgym.task.VARIANTS": "agentgym.task.Origin.VARIANTS",
    "agentgym.task.pair_of": "agentgym.Task.pair",
    "agentgym.task.source_of": "agentgym.Task.source",
    "agentgym.task.task_from_json": "agentgym.Task.from_json",
    "agentgym.task.task_to_json": "agentgym.Task.to_json",
    "agentgym.task.training_only": "agentgym.TaskSet.training_only",
    "agentgym.trajectory.Assistance": "agentgym.trajectory.PromptAddition.training_help",
    "agentgym.languages.*": "agentgym.sandboxes.languages",
    "agentgym.Attempts": "agentgym.methods.attempts.Attempts",
    "agentgym.rollout.Attempts": "agentgym.methods.attempts.Attempts",
    "agentgym.rollout.STOP_RULES": "agentgym.methods.stop_rules.STOP_RULES",
    "agentgym.rollout.Hopeless": "agentgym.methods.stop_rules.Hopeless",
    "agentgym.rollout.InvalidCalls": "agentgym.methods.stop_rules.InvalidCalls",
    "agentgym.rollout.NoProgress": "agentgym.methods.stop_rules.NoProgress",
    "agentgym.rollout.OutOfReach": "agentgym.methods.stop_rules.OutOfReach",
    "agentgym.rollout.RepeatedState": "agentgym.methods.stop_rules.RepeatedState",
    "agentgym.rollout.StopRule": "agentgym.methods.stop_rules.StopRule",
    "agentgym.knowledge.*": "agentgym.methods.knowledge",
    "agentgym.protocol.*": "agentgym.methods.protocol",
    "agentgym.search.*": "agentgym.methods.search",
    "agentgym.teams.*": "agentgym.methods.teams",
    "agentgym.users.*": "agentgym.methods.users",
    "agentgym.credit.bench.*": "research.credit_bench",  # exists in a checkout, but not in a wheel
    "agentgym.credit.bench.SubtaskChain": "agentgym.methods.credit_advice.subtasks.SubtaskChain",
    "agentgym.credit.bench.signal_to_noise": "agentgym.methods.credit_advice.subtasks.signal_to_noise",
    "agentgym.credit.bench.steps_to": "agentgym.methods.credit_advice.subtasks.steps_to",
    "agentgym.credit.exact.*": "agentgym.testing.exact",
    "agentgym.evaluation.statistics.paired": "agentgym.evaluation.comparison.paired",
    "agentgym.evaluation.export.*": "agentgym.bridges.parquet",
    "agentgym.evaluation.export.ConversationEntry": "agentgym.bridges.conversation.ConversationEntry",
    "agentgym.evaluation.export.conversation": "agentgym.bridges.conversation.conversation",
    "agentgym.evaluation.export.inspect_log": "agentgym.bridges.inspect.inspect_log",
    "agentgym.evaluation.histories": "agentgym.methods.weakness.histories",
    "agentgym.evaluation.EpisodeSearch": "agentgym.rollout.search.EpisodeSearch",
    "agentgym.evaluation.SearchResult": "agentgym.rollout.search.SearchResult",
    "agentgym.training.mixing.*": "agentgym.methods.mixing",
    "agentgym.training.scale_plan.*": "agentgym.methods.scale_plan",
    "agentgym.interop.ActionText": "agentgym.bridges.gymnasium.toy_text.ActionText",
    "agentgym.interop.GymnasiumEnvironment": "agentgym.bridges.gymnasium.environment.GymnasiumEnvironment",
    "agentgym.interop.GymnasiumEpisode": "agentgym.bridges.gymnasium.environment.GymnasiumEpisode",
    "agentgym.interop.TextEnv": "agentgym.bridges.gymnasium.TextEnv",
    "agentgym.interop.TrlEnvironments": "agentgym.bridges.trl.TrlEnvironments",
    "agentgym.interop.gymnasium_tasks": "agentgym.bridges.gymnasium.gymnasium_tasks",
    "agentgym.interop.register_gymnasium": "agentgym.bridges.gymnasium.register_gymnasium",
    "agentgym.cluster.KubernetesBackend": "agentgym.bridges.kubernetes.KubernetesBackend",
    "agentgym.interop.McpEnvironment": "agentgym.bridges.mcp.McpEnvironment",
    "agentgym.interop.OpenEnvEnvironment": "agentgym.bridges.openenv.OpenEnvEnvironment",
    "agentgym.interop.VerifiersEnvironment": "agentgym.bridges.verifiers.VerifiersEnvironment",
    "agentgym.training.objectives.Needs": "agentgym.training.objectives.LossRequirements",
    "agentgym.training.gatherers.ReadsTasks": "agentgym.training.gatherers.GathererWrapper",
    "agentgym.training.gatherers.Stateful": "agentgym.training.gatherers.GathererWrapper",
    "agentgym.training.offline.DqnPolicy": "agentgym.methods.dqn.DqnPolicy",
    "agentgym.policy.ChatApiPolicy": "agentgym.bridges.chat_api.ChatApiPolicy",
    "agentgym.policy.Tags": "agentgym.formats.tags.Tags",
    "agentgym.policy.load_transformers_policy": "agentgym.policy.local.load",
    "agentgym.policy.load_vision_policy": "agentgym.policy.local.load_vision",
    "agentgym.interop.McpServer": "agentgym.bridges.mcp.McpServer",
    "agentgym.interop.register_mcp": "agentgym.bridges.mcp.register_mcp",
    "agentgym.interop.mcp.McpServer": "agentgym.bridges.mcp.McpServer",
    "agentgym.interop.mcp.register_mcp": "agentgym.bridges.mcp.register_mcp",
    "agentgym.training.NewTasks": "agentgym.methods.new_tasks.NewTasks",
    "agentgym.training.ReturnSpec": "agentgym.methods.stored_turns.ReturnSpec",
    "agentgym.training.offline.*": "agentgym.methods.stored_turns",
    "agentgym.interop.inspect.*": "agentgym.bridges.inspect",
    "agentgym.interop.openenv.*": "agentgym.bridges.openenv",
    "agentgym.interop.openenv_tasks": "agentgym.bridges.openenv.openenv_tasks",
    "agentgym.interop.register_openenv": "agentgym.bridges.openenv.register_openenv",
    "agentgym.interop.register_verifiers": "agentgym.bridges.verifiers.register_verifiers",
    "agentgym.interop.verifiers.*": "agentgym.bridges.verifiers",
    "agentgym.interop.verifiers_tasks": "agentgym.bridges.verifiers.verifiers_tasks",
}
"""Old dotted name to the new one. `"agentgym.old.*": "agentgym.new"` moves every public name of a package.

A function may have become a method or a property of a class: `agentgym.Task.pair`."""

_INTERNAL: dict[str, dict[str, str]] = {
    "agentgym": {
        "messages": "images_of",
        "errors": "DuplicateNameError RegistrationError ReplayDiverged ShapeError SplitLeakError",
    },
    "agentgym.cli": {
        "fields": "Fields",
        "options": "TaskOptions judging_options unhurried",
        "policies": "AgentOptions",
        "rollout_options": "RolloutOptions",
        "task_offer": "ListenOptions TaskOffer",
    },
    "agentgym.cluster": {
        "remote_environment": "RemoteEnvironment",
        "served_episodes": "ServerLimits",
        "serving": "serve_environments",
    },
    "agentgym.credit": {
        "batch": "BatchCredit batch_credit_of groups_of with_signal_rows",
        "contract": "Credit batch_advantages",
        "group": "SIGNALS",
        "signals": "Bools Labels",
    },
    "agentgym.credit.wrappers": {
        "contract": "Wrapper",
    },
    "agentgym.environment": {
        "contexts": "changes_context take_context_change",
        "guest_module": "GuestObject GuestStopped",
        "sandboxes": "EnvironmentSandboxes",
    },
    "agentgym.evaluation": {
        "report": "write_report",
        "runner": "from_trajectories",
    },
    "agentgym.evaluation.statistics": {
        "adaptive_stopping": "Decision adastop",
        "aggregate": "interquartile_mean performance_profile probability_of_improvement stratified_bootstrap",
        "bootstrap": "cluster_bootstrap mean_interval",
        "estimate": "Comparison Estimate Outcomes task_means",
        "passes": "pass_at_k pass_curve pass_hat_k",
        "permutation": "holm mcnemar sign_flip_test sign_test",
        "power": "power_of tasks_needed",
        "proportion": "solved_within success_rate wilson",
        "score": "score_interval",
    },
    "agentgym.interop": {
        "gateway.programs": "AgentProgram",
    },
    "agentgym.interop.gateway": {
        "programs": "AgentProgram",
    },
    "agentgym.policy": {
        "checkpoint": "save_untied",
        "contract": "with_call_ids",
    },
    "agentgym.policy.logit_hooks": {
        "contract": "make_hook",
    },
    "agentgym.reward": {
        "functions": "FunctionReward",
        "comparison": "fold_answer read_number same_answer same_data same_number",
    },
    "agentgym.rollout": {
        "replay": "Divergence ExhaustedPolicy",
        "workers.slots": "Slots",
        "workers.standstill": "StandstillWatch",
    },
    "agentgym.sandbox": {
        "contract": "Connection Layer",
        "guest.root": "AGENT_ID",
        "host.sessions": "SessionLog replay_sessions",
        "metering": "SandboxMeter combine_usage metered usage_counts usage_since",
        "network.account": "NetworkLimits",
        "pool.stats": "PoolStats",
        "wrapper": "SandboxWrapper",
        "allow_list": "AllowList",
        "network.proxy": "SandboxNetwork",
    },
    "agentgym.sandbox.pool": {
        "pool": "Pool",
        "stats": "PoolStats",
    },
    "agentgym.sandbox.rootfs": {
        "python_image": "write_python_image",
    },
    "agentgym.storage": {
        "reader": "LedgerReader",
        "codec": "message_from_json message_to_json",
        "run_folder": "checkpoint_in",
    },
    "agentgym.task": {
        "mixture": "by_weight",
    },
    "agentgym.testing.backends": {
        "check": "BackendCheck Breach CheckVerdict NotApplicable",
        "runs": "ATTACKS CONTRACT Check checks run_checks",
        "testbed": "SPEC",
    },
    "agentgym.testing.exact": {
        "bias": "GradientBias bias_of",
        "problems": "Problem ProblemPath",
    },
    "agentgym.tools": {
        "definition": "ToolOptions tools_by_name",
    },
    "agentgym.training": {
        "demonstrate": "demonstrations",
        "signals.provider": "SignalProvider",
    },
    "agentgym.training.gatherers": {
        "contract": "WrappedGatherer changes_left_in",
    },
    "agentgym.training.objectives": {
        "contract": "k3 EpisodeKind RowLosses TrlLoss WeightedTerm losses_by_row "
        "make_objective make_term make_terms needs_of objective_share",
    },
    "agentgym.trajectory": {
        "provenance": "ReplayedTurns",
        "record": "TokenArrays",
    },
}
"""Names that a package no longer declares public, because only the framework used them, by package and module."""

_ONE_HOME: dict[str, dict[str, str]] = {
    "agentgym": {
        "agentgym.environment": "HasContexts",
        "agentgym.trajectory": "Row Span",
    },
    "agentgym.credit": {"agentgym.options": "Count Share Weight WholeNumber"},
    "agentgym.environment": {"agentgym": "Checkpoint Environment GuestModule ObservedState Outlook"},
    "agentgym.evaluation": {"agentgym": "compare evaluate"},
    "agentgym.policy": {"agentgym": "Policy ScriptedPolicy"},
    "agentgym.policy.logit_hooks": {"agentgym.trajectory": "TokenMask"},
    "agentgym.reward": {"agentgym": "Combined Gate Reward Schedule reward_function"},
    "agentgym.rollout": {"agentgym": "Budgets EpisodeManager RolloutConfig"},
    "agentgym.sandbox": {"agentgym": "SandboxSpec"},
    "agentgym.sandbox.rootfs": {"agentgym.sandbox": "cache_folder"},
    "agentgym.task": {"agentgym": "Split Task TaskSet seed_of"},
    "agentgym.testing": {"agentgym": "ScriptedPolicy"},
    "agentgym.testing.backends": {"agentgym.testing": "check_backend"},
    "agentgym.tools": {"agentgym": "Tool tool"},
    "agentgym.trajectory": {"agentgym": "Trajectory Turn"},
}
"""Names that two packages declared: the package that no longer does, and the one that still does."""

MOVED |= {
    f"{package}.{name}": f"{package}.{module}.{name}"
    for package, modules in _INTERNAL.items()
    for module, names in modules.items()
    for name in names.split()
}
MOVED |= {
    f"{package}.{name}": f"{home}.{name}"
    for package, homes in _ONE_HOME.items()
    for home, names in homes.items()
    for name in names.split()
}


def moved_name(package: str, name: str, *, stacklevel: int = 1) -> Any:
    """Return the object that was `package.name`, and warn with its new place.

    Raises: AttributeError if the table has no such name.
    """
    new = MOVED.get(f"{package}.{name}")
    if new is None and f"{package}.*" in MOVED and not name.startswith("_"):
        new = f"{MOVED[f'{package}.*']}.{name}"
    if new is None:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    from agentgym.deprecation import warn_renamed  # an import at the top would slow down `import agentgym`

    try:
        value = resolve_name(new)
    except AttributeError:
        raise AttributeError(f"module {package!r} has no attribute {name!r}") from None
    warn_renamed(f"{package}.{name}", new, stacklevel=stacklevel + 1)
    return value.fget if isinstance(value, property) else value


def moved_names(package: str) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package some of whose names have moved."""

    def __getattr__(name: str) -> Any:
        return moved_name(package, name)

    return __getattr__


def lazy_names(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package that imports its public names on first use. Its `dir()` lists them from the
    start.

    A name that has moved to another package is found there, with a warning: see `MOVED`.

    Args:
        package: the package's own `__name__`.
        homes: name to the module that defines it, relative to the package: `{"Recipe": "recipe"}`. If the name there
            differs, it follows a colon: `{"load_vision_policy": "vision:load"}`.
    """

    def __getattr__(name: str) -> Any:
        if name not in homes:
            return moved_name(package, name)
        module, _, attribute = homes[name].partition(":")
        value = getattr(import_module(f".{module}", package), attribute or name)
        setattr(sys.modules[package], name, value)  # so that it is looked up only once
        return value

    def __dir__() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes})

    sys.modules[package].__dict__["__dir__"] = __dir__
    return __getattr__


class MovedPackages(MetaPathFinder, Loader):
    """Finds the packages that are gone as a whole, so that `from agentgym.old import X` reaches the new place."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of an empty package if the table moves the whole package `fullname`; else None."""
        return spec_from_loader(fullname, self, is_package=True) if f"{fullname}.*" in MOVED else None

    def exec_module(self, module: ModuleType) -> None:
        """Give the package the `__getattr__` that looks in the table."""
        module.__dict__["__getattr__"] = moved_names(module.__name__)
        module.__dict__["__all__"] = []  # `import *` from an old package gives nothing: import names
