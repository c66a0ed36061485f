"""The optimiser `muon`: momentum with an orthogonalised direction for hidden matrices; AdamW for everything else.

Torch's Muon takes only matrices and computes in bfloat16, which on a CPU takes twenty times as long as float32.
Source: K. Jordan et al., "Muon: An optimizer for hidden layers in neural networks" (2024); the scaling to AdamW's rate:
J. Liu et al., "Muon is scalable for LLM training", arXiv 2502.16982.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import torch

_QUINTIC = (3.4445, -4.7750, 2.0315)  # coefficients of the iteration, from Jordan's article
_ITERATIONS = 5


class Muon(torch.optim.AdamW):
    """AdamW, except that Muon updates the matrices of the parameter groups with `orthogonal`.

    Muon's updates are scaled to the size of AdamW's, so that both use the same learning rate.

    Attributes:
        needs_whole_model: the matrices must not be shards.
    Args:
        model: a transformers model. Muon updates its matrices, except the embeddings and the output layer.
        learning_rate: the learning rate of both.
        momentum: Muon's momentum, with Nesterov look-ahead.
    """

    needs_whole_model: ClassVar[bool] = True

    def __init__(self, model: Any, *, learning_rate: float, momentum: float = 0.95) -> None:
        self._momentum = momentum
        ends = {id(layer.weight) for layer in (model.get_input_embeddings(), model.get_output_embeddings()) if layer}
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        hidden = [parameter for parameter in trained if parameter.ndim == 2 and id(parameter) not in ends]
        chosen = {id(parameter) for parameter in hidden}
        rest = [parameter for parameter in trained if id(parameter) not in chosen]
        groups = [{"params": hidden, "orthogonal": True}, {"params": rest, "orthogonal": False}]
        super().__init__(
            [group for group in groups if group["params"]], lr=learning_rate, betas=(0.9, 0.98), weight_decay=0.0
        )

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Update every parameter that has a gradient.

        While AdamW takes its step, the gradients of Muon's matrices are hidden from it.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        gradients = {}
        for group in self.param_groups:
            for parameter in group["params"] if group["orthogonal"] else ():
                if parameter.grad is not None:
                    self._update(parameter, group["lr"])
                    gradients[parameter], parameter.grad = parameter.grad, None
        super().step()
        for parameter, gradient in gradients.items():
            parameter.grad = gradient
        return loss

    def _update(self, parameter: torch.nn.Parameter, learning_rate: float) -> None:
        assert parameter.grad is not None
        state = self.state[parameter]
        if not state:
            state |= {"step": torch.tensor(0.0), "momentum": torch.zeros_like(parameter)}
        state["step"] += 1  # AdamW expects this key in a loaded state
        average: torch.Tensor = state["momentum"]
        average.lerp_(parameter.grad, 1 - self._momentum)
        direction = orthogonal(parameter.grad.lerp(average, self._momentum))
        parameter.add_(direction, alpha=-learning_rate * 0.2 * max(parameter.shape) ** 0.5)


def orthogonal(matrix: torch.Tensor) -> torch.Tensor:
    """Return the matrix with its singular values changed, by a Newton-Schulz iteration, to values between 0.7 and 1.2.

    Args:
        matrix: a matrix of any shape, [rows, columns].
    """
    a, b, c = _QUINTIC
    wide = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T
    wide = wide / wide.norm().clamp(min=1e-7)
    for _ in range(_ITERATIONS):
        gram = wide @ wide.T
        wide = torch.addmm(wide, torch.addmm(gram, gram, gram, beta=b, alpha=c), wide, beta=a)
    return wide if matrix.shape[0] <= matrix.shape[1] else wide.T
