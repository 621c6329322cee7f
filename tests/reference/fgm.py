"""FGM on the embeddings' output: Miyato, Dai, Goodfellow 2017, equations 5 and 6, and FGSM's step."""

from __future__ import annotations

import torch
from torch import Tensor

from tests.reference.passes import Passes, clipped, uphill


def fgm(
    loss: Passes,
    *,
    epsilon: float,
    weight: float = 1.0,
    mean: bool = False,
    radius: float = 0.0,
    norm: str = "l2",
    step: str = "steepest",
    over: str = "example",
) -> Tensor:
    share = 1 / (1 + weight) if mean else 1.0
    delta = torch.zeros_like(loss.size, requires_grad=True)
    clean = loss(delta)
    (share * clean).backward()
    delta = clipped(epsilon * uphill(delta.grad, norm, step, over), radius, norm, over)
    adversarial = loss(delta)
    (share * weight * adversarial).backward()
    return share * (clean + weight * adversarial).detach()
