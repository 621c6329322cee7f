"""FreeLB: Zhu et al. 2020, algorithm 1, and the clean pass in the mean that users asked for."""

from __future__ import annotations

import torch
from torch import Tensor

from tests.reference.passes import Passes, clipped, start, uphill


def freelb(
    loss: Passes,
    noise: Tensor | None,
    *,
    steps: int,
    step_size: float,
    size: float = 0.0,
    radius: float = 0.0,
    clean_weight: float = 0.0,
    norm: str = "l2",
    step: str = "steepest",
    over: str = "example",
) -> Tensor:
    total = torch.zeros(())
    if clean_weight > 0:
        clean = clean_weight / (steps + clean_weight) * loss()
        clean.backward()
        total = total + clean.detach()
    delta = torch.zeros_like(loss.size) if noise is None else start(noise, loss.real, size, norm, over)
    for _ in range(steps):
        delta.requires_grad_()
        adversarial = loss(delta) / (steps + clean_weight)
        adversarial.backward()
        total = total + adversarial.detach()
        delta = delta.detach() + step_size * uphill(delta.grad, norm, step, over)
        delta = clipped(delta, radius, norm, over)
    return total
