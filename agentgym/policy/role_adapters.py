"""A LoRA adapter for each role of a team, on one model: agents of their own that share all other weights.

All are kept in one adapter of peft, whose inner width is shared out among the roles: a row of the first matrix and the
column of the second that reads it belong to one role alone. So saving, the frozen copy for the KL term and resuming are
those of any adapter, and a forward pass may hold sequences of several roles. Sources: MARFT, Liao et al. 2025,
arXiv:2504.16129, where agents are adapters of one model; CORY, Ma et al. 2024, arXiv:2410.06101, whose two copies swap
roles.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from agentgym.errors import PolicyError

FILE = "roles.json"
"""Names the roles, in the folder of a saved adapter that has several."""
_ATTRIBUTE = "agentgym_roles"


class RoleAdapters:
    """Which roles the adapter of a model has, and those of the sequences that it computes next.

    Args:
        roles: in their order. A turn without a role is played by the first of them.
    """

    def __init__(self, roles: Sequence[str]) -> None:
        self.roles = tuple(roles)
        self._owners: torch.Tensor | None = None  # (sequences,) or (1,): the number of the role

    @contextmanager
    def computing(self, roles: Sequence[str]) -> Iterator[None]:
        """Inside, the sequences of a forward pass are of these roles; one role is that of all of them.

        Raises: PolicyError for a role without an adapter.
        """
        before, self._owners = self._owners, torch.tensor([self.number_of(role) for role in roles])
        try:
            yield
        finally:
            self._owners = before

    def number_of(self, role: str) -> int:
        """Return the place of a role in their order. Raises: PolicyError for one without an adapter."""
        if not role:
            return 0
        if role not in self.roles:
            raise PolicyError(
                f"The role {role!r} has no adapter: policy.lora.roles has {', '.join(self.roles)}. Add it there."
            )
        return self.roles.index(role)

    def attach(self, model: Any) -> None:
        """Let every adapter of a model, the frozen copy of TRL included, compute for its sequences' roles alone."""
        for module in model.modules():
            for layer in getattr(module, "lora_A", {}).values():
                if not getattr(layer, _ATTRIBUTE, False):
                    setattr(layer, _ATTRIBUTE, True)
                    layer.register_forward_hook(lambda _, __, inner: self._of_roles(inner))
        setattr(model, _ATTRIBUTE, self)

    def _of_roles(self, inner: torch.Tensor) -> torch.Tensor:
        """Return what an adapter's first matrix gives, [sequences, tokens, width], with 0 outside of each one's own
        part.
        """
        if self._owners is None:
            raise PolicyError(
                "This model has an adapter for each role, and what asks for it does not say in which role. Leave it "
                "out, or leave policy.lora.roles out."
            )
        owner_of_column = torch.arange(len(self.roles)).repeat_interleave(inner.shape[-1] // len(self.roles))
        own = (self._owners[:, None] == owner_of_column).to(inner)
        return inner * own[:, None, :]

    def save(self, folder: Path) -> None:
        """Name the roles in the folder of the saved adapter."""
        (folder / FILE).write_text(json.dumps(self.roles), encoding="utf-8")

    def rotate(self, model: Any, optimizer_state: Mapping[Any, Mapping[str, Any]]) -> None:
        """Let each role have the adapter of the next one, and the last that of the first; two swap theirs.

        Args:
            optimizer_state: by parameter; what has its shape goes with it.
        """
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if not parameter.requires_grad or ".lora_" not in name:
                    continue
                dimension = _inner_dimension(name)
                state = optimizer_state.get(parameter, {})
                moved = [parameter, *(value for value in state.values() if _is_like(value, parameter))]
                for tensor in moved:
                    tensor.copy_(tensor.roll(-(tensor.shape[dimension] // len(self.roles)), dimension))


def role_adapters_of(model: Any) -> RoleAdapters | None:
    """Return the roles of a model that has an adapter for each; None for any other model."""
    adapters: RoleAdapters | None = getattr(model, _ATTRIBUTE, None)
    return adapters


def read_roles(folder: Path) -> list[str]:
    """Return the roles of a saved adapter; none where it is one for all.

    Raises: PolicyError if the file cannot be read.
    """
    file = folder / FILE
    if not file.is_file():
        return []
    try:
        roles = json.loads(file.read_text(encoding="utf-8"))
        return [str(role) for role in roles]
    except (OSError, ValueError, TypeError) as error:
        raise PolicyError(f"{file} cannot be read as the names of roles: {error}") from error


def save_each_role(folder: Path, out: Path) -> None:
    """Write the part of each role as an adapter by itself, which peft and servers load.

    Args:
        folder: the folder of the saved adapter of all roles. out: is replaced by a folder with one for each role.
    """
    roles, partial = read_roles(folder), out.with_name(out.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    configuration = json.loads((folder / "adapter_config.json").read_text(encoding="utf-8"))
    weights = load_file(folder / "adapter_model.safetensors")
    for name in ("r", "lora_alpha"):
        configuration[name] //= len(roles)
    for number, role in enumerate(roles):
        (own := partial / role).mkdir(parents=True)
        parts = {name: tensor.chunk(len(roles), _inner_dimension(name))[number] for name, tensor in weights.items()}
        save_file({name: part.contiguous() for name, part in parts.items()}, own / "adapter_model.safetensors")
        (own / "adapter_config.json").write_text(json.dumps(configuration, indent=2), encoding="utf-8")
    shutil.rmtree(out, ignore_errors=True)
    partial.rename(out)


def _inner_dimension(name: str) -> int:
    """Along which a matrix of an adapter has the inner width: rows of the first, columns of the second."""
    return 0 if ".lora_A." in name else 1


def in_roles(model: Any, roles: Sequence[str]) -> AbstractContextManager[None]:
    """Inside, the sequences that a model computes are of these roles, if it has an adapter for each.

    Raises: as `RoleAdapters.computing`.
    """
    adapters = role_adapters_of(model)
    return nullcontext() if adapters is None else adapters.computing(roles)


def _is_like(value: Any, parameter: torch.Tensor) -> bool:
    return isinstance(value, torch.Tensor) and value.shape == parameter.shape
