"""Reads the task.toml of a Harbor task.

Source: Harbor 0.26 (schema 1.4), harborframework.com/docs/tasks. Older spellings are read too.
Keys that Harbor does not know are ignored, as Harbor ignores them.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from agentgym import TaskError

from .artifacts import ARTIFACTS, Artifact

SIZE = re.compile(r"(\d{1,6}(?:\.\d+)?)\s*([KMG])i?B?", re.IGNORECASE)
MIB = {"K": 1 / 1024, "M": 1, "G": 1024}
TEMPLATE = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")
NETWORK_MODES = ("public", "no-network", "allowlist")
STEP_NAME = re.compile(r"(?!\.{1,2}$)[^/\\\x00-\x1f]{1,255}")
MAX_STEPS = 64
REMEDY = "; leave the task out, or play it with Harbor itself"


def read_config(text: str) -> dict[str, Any]:
    """Return the fields of a `TerminalFolder` that a task.toml sets; of its `steps`, those of a `TaskStep`.

    Also: `image`, the image that it names or "".

    Raises: TaskError for a wrong value, and for what one sandbox cannot do, with what to do about it.
    """
    try:
        data = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise TaskError(f"task.toml is not valid TOML: {error}") from error
    agent, environment, metadata = (_section(data, name) for name in ("agent", "environment", "metadata"))
    if environment.get("mcp_servers"):
        raise TaskError(f"environment.mcp_servers asks for MCP servers, which a shell cannot call{REMEDY}")
    tags, strategy = metadata.get("tags"), data.get("multi_step_reward_strategy", "mean")
    if strategy not in ("mean", "final"):
        raise TaskError(f"multi_step_reward_strategy must be mean or final, not {strategy!r:.80}")
    steps = _steps(data, environment)
    agents = [{**agent, **_section(section, "agent")} for section in data.get("steps") or [{}]]
    return {
        **_sandbox(environment),
        "has_network": all(_has_network(environment, each) for each in agents),
        "pays_last_step": strategy == "final",
        "steps": steps,
        "tags": tuple(map(str, tags)) if isinstance(tags, list) else (),
    }


def _sandbox(environment: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a `SandboxSetup` that an [environment] sets, and `image`. Raises: TaskError."""
    if environment.get("gpus") or environment.get("tpu"):
        raise TaskError(f"environment.gpus or .tpu asks for an accelerator, which a sandbox does not have{REMEDY}")
    if str(environment.get("os", "linux")).lower() != "linux":
        raise TaskError(f"environment.os is {environment['os']!r:.80}, but a sandbox has Linux{REMEDY}")
    fields = {
        "build_s": number_of(environment, "build_timeout_sec", 600.0),
        "memory_mib": _mib(environment, "memory"),
        "disk_mib": _mib(environment, "storage"),
        "cpu_cores": number_of(environment, "cpus", 1.0),
        "image": _text(environment, "docker_image"),
        "workdir": _text(environment, "workdir"),
        "environment": _variables(environment, "environment"),
    }
    return {name: value for name, value in fields.items() if value is not None}


def _steps(data: Mapping[str, Any], environment: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the fields of each step. A task.toml without [[steps]] has one, without a name."""
    sections = data.get("steps") or [{}]
    if not isinstance(sections, list) or not all(isinstance(section, Mapping) for section in sections):
        raise TaskError("steps must be tables: [[steps]]")
    if len(sections) > MAX_STEPS:
        raise TaskError(f"task.toml has {len(sections)} steps, but at most {MAX_STEPS} are played{REMEDY}")
    agent, solution, verifier = (_section(data, name) for name in ("agent", "solution", "verifier"))
    names: set[str] = set()
    steps = []
    for section in sections:
        name = _text(section, "name")
        if data.get("steps") and (not STEP_NAME.fullmatch(name) or name.casefold() in names):
            raise TaskError(f"each of its steps needs a name of its own, that of a folder in steps/, not {name!r:.80}")
        names.add(name.casefold())
        own_agent, own_verifier = _section(section, "agent"), _section(section, "verifier")
        limits = own_verifier if data.get("steps") else verifier  # as in Harbor, a step does not inherit this one
        steps.append(
            {
                "name": name,
                "agent_s": number_of({**agent, **own_agent}, "timeout_sec", 900.0),
                "verifier_s": number_of(limits, "timeout_sec", 600.0),
                "verifier_environment": {**_variables(verifier, "verifier"), **_variables(own_verifier, "verifier")},
                "solution_environment": _variables(solution, "solution"),
                "least_rewards": _least_rewards(section.get("min_reward")),
                **_separate(environment, [own_verifier, verifier], data.get("artifacts"), section.get("artifacts")),
            }
        )
    return steps


def _least_rewards(value: Any) -> dict[str, float]:
    """Return what a step must earn, by key, so that the next one begins. Raises: TaskError."""
    rewards = value if isinstance(value, Mapping) else {} if value is None else {"reward": value}
    for each in rewards.values():
        if not isinstance(each, int | float):
            raise TaskError(f"min_reward must be a number, or a table of numbers, not {each!r:.80}")
    return {str(key): float(each) for key, each in rewards.items()}


def number_of(data: Mapping[str, Any], name: str, default: float) -> float:
    """Return a number above 0 of a section, or the default if it is not set. Raises: TaskError for another value."""
    value = data.get(name)
    try:
        number = default if value is None else float(value)
    except (TypeError, ValueError, OverflowError):
        number = 0.0
    if not 0 < number < 10**6:
        raise TaskError(f"{name} must be a number above 0, not {value!r:.80}")
    return number


def _separate(
    environment: Mapping[str, Any], verifiers: Sequence[Mapping[str, Any]], *artifacts: object
) -> dict[str, Any]:
    """Return what a step says whose tests run in an image of their own: `verifier`, the fields of that sandbox, and
    `artifacts`. Nothing for tests that run in the agent's image.

    Args:
        environment: the agent's. verifiers: what says so, the step's own first.
        artifacts: what is copied from the agent's sandbox, beside /logs/artifacts.
    Raises: TaskError.
    """
    modes = [each.get("environment_mode") or ("separate" if "environment" in each else "") for each in verifiers]
    mode = next(filter(None, modes), "shared")
    if mode not in ("shared", "separate"):
        raise TaskError(f"verifier.environment_mode must be shared or separate, not {mode!r:.80}")
    if mode == "shared":
        return {}
    if any(each.get("collect") for each in verifiers):
        raise TaskError(f"verifier.collect asks for commands in services, of which there are none{REMEDY}")
    own = [_section(each, "environment") for each in verifiers]
    chosen = next((section for section, each in zip(own, verifiers, strict=True) if "environment" in each), environment)
    images = [_text(section, "docker_image") for section in own]
    sandbox = {**_sandbox(chosen), "has_network": _has_network(chosen, verifiers[0] or verifiers[-1])}
    return {"verifier": {**sandbox, "images": images}, "artifacts": _artifacts(artifacts)}


def _artifacts(lists: Sequence[object]) -> tuple[Artifact, ...]:
    """Return what is copied, with /logs/artifacts, which always is. Raises: TaskError."""
    artifacts = []
    for entry in [entry for entries in lists if isinstance(entries, list) for entry in entries]:
        fields = {"source": entry} if isinstance(entry, str) else entry
        if not isinstance(fields, Mapping) or not (source := _text(fields, "source")):
            raise TaskError(f"artifacts must be paths, or tables with a source, not {entry!r:.80}")
        if fields.get("service", "main") != "main":
            raise TaskError(f"artifacts asks for {source} of the service {fields['service']!r:.80}{REMEDY}")
        exclude = fields.get("exclude", [])
        if not isinstance(exclude, list):
            raise TaskError(f"exclude of the artifact {source} must be a list, not {exclude!r:.80}")
        artifacts.append(Artifact(source, tuple(map(str, exclude))))
    if not any(artifact.source.rstrip("/") == ARTIFACTS for artifact in artifacts):
        artifacts.insert(0, Artifact(ARTIFACTS))
    return tuple(artifacts)


def _section(data: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    section = data.get(name, {})
    if not isinstance(section, Mapping):
        raise TaskError(f"{name} must be a table, not {section!r:.80}")
    return section


def _text(section: Mapping[str, Any], name: str) -> str:
    value = section.get(name, "")
    if not isinstance(value, str):
        raise TaskError(f"{name} must be a text, not {value!r:.80}")
    return value.strip()


def _variables(section: Mapping[str, Any], name: str) -> dict[str, str]:
    """Return the variables of a section. Those of this host are secret: `${X:-default}` is the default.

    Raises: TaskError for a variable that only this host could give.
    """
    values = {key: str(value) for key, value in _section(section, "env").items()}
    for key, value in values.items():
        if secret := next((match[1] for match in TEMPLATE.finditer(value) if match[2] is None), ""):
            raise TaskError(
                f"{name}.env sets {key} to this host's {secret}, but a task gets no variables of the host; write its "
                f"value, or ${{{secret}:-default}}"
            )
    return {key: TEMPLATE.sub(lambda match: match[2], value) for key, value in values.items()}


def _has_network(environment: Mapping[str, Any], agent: Mapping[str, Any]) -> bool:
    """Return whether the agent's commands may have a network. Raises: TaskError for an unknown mode."""
    old = "public" if environment.get("allow_internet", True) else "no-network"
    mode = agent.get("network_mode") or environment.get("network_mode") or old
    if mode not in NETWORK_MODES:
        raise TaskError(f"network_mode must be one of {', '.join(NETWORK_MODES)}, not {mode!r:.80}")
    return bool(mode != "no-network")


def _mib(section: Mapping[str, Any], name: str) -> int | None:
    """Return a size in MiB: `memory_mb = 2048`, or `memory = "2G"`; None if it is not set."""
    if section.get(f"{name}_mb") is not None:
        return int(number_of(section, f"{name}_mb", 0.0))
    value = section.get(name)
    match = SIZE.fullmatch(str(value))
    if value is None:
        return None
    if match is None or (mib := int(float(match[1]) * MIB[match[2].upper()])) < 1:
        raise TaskError(f"environment.{name} must be a size such as 2G or 512M, not {value!r:.80}")
    return mib
