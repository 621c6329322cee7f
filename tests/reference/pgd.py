"""K-PGD: Madry et al. 2018, with FreeLB's random start."""

from __future__ import annotations

import torch
from torch import Tensor

from tests.reference.passes import Passes, clipped, start, uphill


def pgd(
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
    delta = torch.zeros_like(loss.size) if noise is None else start(noise, loss.real, size, norm, over)
    for k in range(steps):
        delta.requires_grad_()
        if k == 0 and clean_weight > 0 and noise is None:  # the clean pass is the first step's too
            clean = loss(delta)
            grad = torch.autograd.grad(clean, delta, retain_graph=True)[0]
        else:
            if k == 0 and clean_weight > 0:
                clean = loss()
            grad = torch.autograd.grad(loss(delta), delta)[0]
        if k == 0 and clean_weight > 0:
            (clean_weight * clean).backward()
            total = clean_weight * clean.detach()
        delta = clipped(delta.detach() + step_size * uphill(grad, norm, step, over), radius, norm, over)
    adversarial = loss(delta)
    adversarial.backward()
    return total + adversarial.detach()
