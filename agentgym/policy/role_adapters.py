"""One LoRA adapter per role of a team, on one model: separate agents that share all other weights.

All role adapters are stored in a single peft adapter, whose inner width is divided among the roles: a row of the first
matrix and the matching column of the second belong to one role alone. So saving, the frozen copy for the KL term and
resuming work as for any adapter, and a forward pass may mix sequences of several roles. Sources: MARFT, Liao et al.
2025, arXiv:2504.16129, where agents are adapters of one model; CORY, Ma et al. 2024, arXiv:2410.06101, whose two copies
swap roles.
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
"""The file with the role names, in the folder of a saved adapter for several roles."""
_ATTRIBUTE = "agentgym_roles"


class RoleAdapters:
    """The roles of a model's adapter, and the roles of the sequences in the next forward pass.

    Args:
        roles: in order. A turn without a role is played by the first role.
    """

    def __init__(self, roles: Sequence[str]) -> None:
        self.roles = tuple(roles)
        self._owners: torch.Tensor | None = None  # the number of the role, of shape (sequences,) or (1,)

    @contextmanager
    def computing(self, roles: Sequence[str]) -> Iterator[None]:
        """Set the role of each sequence of a forward pass inside this context; a single role applies to all.

        Raises: PolicyError for a role without an adapter.
        """
        before, self._owners = self._owners, torch.tensor([self.number_of(role) for role in roles])
        try:
            yield
        finally:
            self._owners = before

    def number_of(self, role: str) -> int:
        """Return the index of a role; 0 for no role. Raises: PolicyError for a role without an adapter."""
        if not role:
            return 0
        if role not in self.roles:
            raise PolicyError(
                f"The role {role!r} has no adapter: policy.lora.roles lists only {', '.join(self.roles)}. Add the "
                "role there."
            )
        return self.roles.index(role)

    def attach(self, model: Any) -> None:
        """Restrict each adapter of a model, including TRL's frozen copy, to the part of each sequence's role."""
        for module in model.modules():
            for layer in getattr(module, "lora_A", {}).values():
                if not getattr(layer, _ATTRIBUTE, False):
                    setattr(layer, _ATTRIBUTE, True)
                    layer.register_forward_hook(lambda _, __, inner: self._of_roles(inner))
        setattr(model, _ATTRIBUTE, self)

    def _of_roles(self, inner: torch.Tensor) -> torch.Tensor:
        """Return [sequences, tokens, width] the first matrix's output, 0 outside the part of the sequence's role."""
        if self._owners is None:
            raise PolicyError(
                "This model has one adapter per role, but a forward pass was requested without a role. Leave out the "
                "part of the recipe that requests it, or policy.lora.roles."
            )
        owner_of_column = torch.arange(len(self.roles)).repeat_interleave(inner.shape[-1] // len(self.roles))
        own = (self._owners[:, None] == owner_of_column).to(inner)
        return inner * own[:, None, :]

    def save(self, folder: Path) -> None:
        """Write the role names into the folder of the saved adapter."""
        (folder / FILE).write_text(json.dumps(self.roles), encoding="utf-8")

    def rotate(self, model: Any, optimizer_state: Mapping[Any, Mapping[str, Any]]) -> None:
        """Give each role the adapter of the next role, and the last role that of the first; two roles swap.

        Args:
            optimizer_state: by parameter; tensors with the parameter's shape are moved too.
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
    """Return the role adapters of a model; None for a model without them."""
    adapters: RoleAdapters | None = getattr(model, _ATTRIBUTE, None)
    return adapters


def read_roles(folder: Path) -> list[str]:
    """Return the roles of a saved adapter; empty if one adapter serves all roles.

    Raises: PolicyError if the file cannot be read.
    """
    file = folder / FILE
    if not file.is_file():
        return []
    try:
        roles = json.loads(file.read_text(encoding="utf-8"))
        return [str(role) for role in roles]
    except (OSError, ValueError, TypeError) as error:
        raise PolicyError(f"{file} should list the names of roles, but cannot be read: {error}") from error


def save_each_role(folder: Path, out: Path) -> None:
    """Write each role's part as a separate adapter, which peft and servers can load.

    Args:
        folder: the folder of the saved adapter of all roles.
        out: replaced by a folder with a subfolder per role.
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
    """Return the dimension of an adapter matrix that is the inner width: rows of the first, columns of the second."""
    return 0 if ".lora_A." in name else 1


def in_roles(model: Any, roles: Sequence[str]) -> AbstractContextManager[None]:
    """Set the roles of a model's sequences inside this context, if the model has an adapter per role.

    Raises: as `RoleAdapters.computing`.
    """
    adapters = role_adapters_of(model)
    return nullcontext() if adapters is None else adapters.computing(roles)


def _is_like(value: Any, parameter: torch.Tensor) -> bool:
    return isinstance(value, torch.Tensor) and value.shape == parameter.shape
