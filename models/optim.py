"""Muon for the matrices inside the blocks, AdamW for the rest: a measured recipe."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

# Quintic Newton-Schulz coefficients of Jordan et al. 2024, the defaults of `torch.optim.Muon`.
_A, _B, _C = 3.4445, -4.775, 2.0315


def orthogonalise(updates: Float[Tensor, "N R C"], steps: int = 5) -> Float[Tensor, "N R C"]:
    """Nearest semi-orthogonal matrices, roughly (singular values land in about 0.7..1.2).

    Batched over matrices of one shape; equals the Newton-Schulz iteration inside `torch.optim.Muon`
    applied one by one (a test holds that), in the input's own precision.
    """
    wide = updates.transpose(1, 2) if updates.shape[1] > updates.shape[2] else updates
    wide = wide / wide.norm(dim=(1, 2), keepdim=True).clamp(min=1e-7)
    for _ in range(steps):
        gram = wide @ wide.transpose(1, 2)
        wide = _A * wide + (_B * gram + _C * gram @ gram) @ wide
    return wide.transpose(1, 2) if updates.shape[1] > updates.shape[2] else wide


class Muon:
    """Momentum, then one orthogonalised step, on matrices `W (in, out)` as GPT-2 stores them.

    `torch.optim.Muon` takes a whole parameter: it would orthogonalise q, k and v of `c_attn` as one
    matrix, which learns worse, and loops over matrices, which is slower. Here every parameter may
    hold several square parts side by side, and all parts of one shape are orthogonalised in one
    batch. Updates are scaled by sqrt(max(1, out / in)).
    """

    def __init__(self, params: dict[str, nn.Parameter], lr: float, momentum: float = 0.95):
        self.params, self.lr, self.momentum = params, lr, momentum
        self.buffers = {name: torch.zeros_like(p) for name, p in params.items()}

    @staticmethod
    def _parts(name: str) -> int:
        return 3 if name.endswith("c_attn.weight") else 1

    @torch.no_grad()
    def step(self, factor: float) -> None:
        """One step with learning rate `factor * lr` from the gradients in place."""
        by_shape: dict[tuple[int, int], list[tuple[str, Tensor]]] = {}
        for name, param in self.params.items():
            if param.grad is None:
                continue
            buffer = self.buffers[name]
            buffer.mul_(self.momentum).add_(param.grad, alpha=1 - self.momentum)
            nesterov = param.grad.lerp(buffer, self.momentum)
            for part in nesterov.chunk(self._parts(name), dim=1):
                by_shape.setdefault((part.shape[0], part.shape[1]), []).append((name, part))
        updates: dict[str, list[Tensor]] = {}
        for (rows, cols), parts in by_shape.items():
            scale = max(1.0, cols / rows) ** 0.5
            batch = orthogonalise(torch.stack([part for _, part in parts])) * scale
            for (name, _), update in zip(parts, batch, strict=True):
                updates.setdefault(name, []).append(update)
        for name, parts_of in updates.items():
            self.params[name].add_(torch.cat(parts_of, dim=1), alpha=-factor * self.lr)


def split_parameters(
    model: nn.Module,
) -> tuple[dict[str, nn.Parameter], dict[str, nn.Parameter]]:
    """(matrices inside the blocks, everything else that learns), by name."""
    inside: dict[str, nn.Parameter] = {}
    rest: dict[str, nn.Parameter] = {}
    for name, param in model.named_parameters():
        if not param.requires_grad:
            continue
        (inside if ".h." in name and param.ndim == 2 else rest)[name] = param
    return inside, rest
