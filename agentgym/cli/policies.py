"""Parse --policy: `oracle`, a checkpoint, run folder or hub model, or `<registered policy>:<where>#<model>`."""

from __future__ import annotations

import inspect
import re
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from agentgym.cli.name_values import options_for
from agentgym.errors import AgentGymError, UnknownNameError
from agentgym.task.definition import Task
from agentgym.task.task_set import TaskSet

if TYPE_CHECKING:  # the policies and the registry need numpy, which --help does without
    from agentgym.policy.contract import Policy


class PolicyArgumentError(AgentGymError, ValueError):
    """A --policy argument that names no policy."""


_RECORDED = ("call_format", "template_options", "quantization", "logit_hook", "logit_hook_options")
"""Keys of a recipe's [policy] that its checkpoints do not store."""
_HUB_NAME = re.compile(r"[\w-][\w.-]*/[\w.-]+", re.ASCII)
Agent: TypeAlias = "Policy | Callable[[Task], Policy]"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentOptions:
    """Who plays, and how a model is loaded or reached."""

    policy: Annotated[str, typer.Option(metavar="POLICY")]
    """oracle, a checkpoint, run folder or hub model, chat_api:URL#model, vllm:URL#path, or your own policy."""
    call_format: str | None = None
    """The format in which a local model writes calls. By default it is the format with which its run was trained."""
    api_key_env: Annotated[str | None, typer.Option(metavar="NAME")] = None
    """The environment variable that holds the API key of chat_api."""
    policy_options: Annotated[list[str] | None, typer.Option("--policy-option", metavar="NAME=VALUE")] = None
    """An option of the policy, e.g. token_field=max_completion_tokens, extra.reasoning_effort=low or
    retry_policy.unreached_s=60 of chat_api. Repeatable; docs/evaluate.md lists them."""
    device: Annotated[str, typer.Option(metavar="DEVICE")] = "auto"
    """Where a local model runs: cpu, cuda or cuda:N. auto takes a GPU if there is one."""

    def load(self, task_set: TaskSet) -> tuple[Agent, str]:
        """Load the agent, and return it with its name for records. Raises: as `load_policy`."""
        return load_policy(
            self.policy,
            task_set,
            call_format=self.call_format,
            api_key_env=self.api_key_env,
            device=self.device,
            pairs=self.policy_options,
        )

    def adaptations(self) -> str:
        """Return the tasks that the agent was adapted to without labels, as a description; empty if none."""
        from agentgym.storage.adaptations import adaptations_of

        return adaptations_of(self.policy)


def load_policy(
    text: str,
    task_set: TaskSet,
    *,
    call_format: str | None = None,
    api_key_env: str | None = None,
    device: str = "auto",
    pairs: Sequence[str] | None = None,
) -> tuple[Agent, str]:
    """Return the agent that a --policy argument names, and its name for records.

    Args:
        pairs: further options of the policy, as NAME=VALUE.
    Raises: PolicyArgumentError naming valid alternatives; any error of the policy itself.
    """
    from agentgym import registry

    pairs = list(pairs or ())
    name_in_records = " ".join([text, *_pairs_that_matter(pairs)])
    if text == "oracle":
        if pairs:
            raise PolicyArgumentError(f"--policy-option {pairs[0]} cannot be used: the policy 'oracle' has no options.")
        if api_key_env:
            raise PolicyArgumentError(
                f"--api-key-env {api_key_env} cannot be used: the policy 'oracle' needs no key. Leave it out, or name "
                "the server by --policy chat_api:URL#model."
            )
        return _oracle(task_set), "oracle"
    if Path(text).exists():
        path, recorded = _checkpoint(Path(text))
        options = recorded | ({"call_format": call_format} if call_format else {}) | {"device": device}
        return _local_model(str(path), options, pairs), name_in_records
    name, colon, rest = text.partition(":")
    if name in registry.names("policies"):
        address, _, model = rest.partition("#")
        named = {"call_format": call_format, "api_key_env": api_key_env}
        return _make(name, address if colon else "", model, named, pairs), name_in_records
    if _HUB_NAME.fullmatch(text):
        options = {"call_format": call_format or "auto", "device": device}
        return _local_model(text, options, pairs), name_in_records
    try:
        registry.load("policies", name)
    except UnknownNameError as error:
        hint = "Did you mean oracle? Else write" if get_close_matches(name, ["oracle"]) else "Write oracle,"
        raise PolicyArgumentError(
            f"--policy {text!r} is neither an existing file or folder nor a policy. {hint} the path of a checkpoint "
            f"or run folder, chat_api:URL#model or vllm:URL#path. {error}"
        ) from error
    raise AssertionError("unreachable: the name was neither known nor unknown")


def _pairs_that_matter(pairs: Sequence[str]) -> list[str]:
    """Return the NAME=VALUE pairs that can change the policy's answers. A resumed run may change the rest."""
    return sorted(pair for pair in pairs if re.split(r"[.=]", pair)[0] not in ("retry_policy", "connections"))


def _local_model(source: str, given: dict[str, Any], pairs: Sequence[str]) -> Agent:
    """Return a transformers model, which reads images if its configuration says so."""
    from agentgym import registry
    from agentgym.policy.silence import silence_libraries

    factory = registry.load("policies", "transformers")
    options = options_for(factory, pairs, "--policy-option", "a local policy", positional=1)
    try:
        with silence_libraries():  # hides the progress bar of loading weights
            model: Agent = factory(source, **({"sees": None} | given | options))
    except TypeError as error:
        if not pairs:
            raise
        raise PolicyArgumentError(
            f"--policy-option {' '.join(pairs)}: a local policy does not accept this: {error}"
        ) from error
    return model


def _oracle(task_set: TaskSet) -> Agent:
    from agentgym.policy.scripted import ScriptedPolicy

    oracle = task_set.oracle
    if oracle is None:
        raise PolicyArgumentError(
            f"{task_set.name} has no oracle, so --policy oracle cannot play it. Give another policy, or give the "
            "TaskSet an `oracle`."
        )
    return lambda task: ScriptedPolicy(oracle(task), name="oracle")


def _checkpoint(path: Path) -> tuple[Path, dict[str, Any]]:
    """Return the checkpoint in a folder, or a run folder's last one, and the policy options of its recipe."""
    folder = next((p for p in (path, path.parent.parent) if (p / "recipe.toml").is_file()), None)
    recorded: dict[str, Any] = {}
    if folder is not None:
        try:
            section = tomllib.loads((folder / "recipe.toml").read_text(encoding="utf-8"))["policy"]
            recorded = {name: section[name] for name in _RECORDED if name in section}
        except (tomllib.TOMLDecodeError, OSError, KeyError):
            pass  # an unreadable recipe only loses the defaults
    from agentgym.storage.run_folder import checkpoint_in

    checkpoint = checkpoint_in(path)
    if checkpoint is None:
        raise PolicyArgumentError(
            f"{path} has no checkpoint: no config.json, no adapter_config.json and no checkpoints/final. Give a "
            "folder that save_pretrained wrote, or a run folder whose training has saved a checkpoint."
        )
    return checkpoint, recorded


def _make(name: str, address: str, model: str, given_options: dict[str, str | None], pairs: Sequence[str]) -> Agent:
    """Build a registered policy. Raise PolicyArgumentError for options that it does not take."""
    from agentgym import registry

    factory = registry.load("policies", name)
    arguments = [part for part in (address, model) if part]
    options: dict[str, Any] = {key: value for key, value in given_options.items() if value is not None}
    options |= options_for(factory, pairs, "--policy-option", f"the policy {name}", positional=len(arguments))
    try:
        inspect.signature(factory).bind(*arguments, **options)
    except TypeError as error:
        raise PolicyArgumentError(
            f"--policy {name} is incomplete: {error}. Write {name}:URL#model, for example "
            f"{name}:http://localhost:8000/v1#my-model."
        ) from error
    agent: Agent = factory(*arguments, **options)
    return agent
