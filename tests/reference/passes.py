"""What the references share: forwards over perturbed word embeddings, and norms, as the papers write them."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn


class Passes:
    """The loss of one batch as a function of the perturbation of its word embeddings, by `inputs_embeds`.

    The first forward draws its dropout mask from the global stream; later ones repeat it or, given `seeds`,
    draw from a stream of that seed. The global stream is left where the first forward left it.
    """

    def __init__(
        self, model: nn.Module, batch: dict[str, Tensor], seeds: Iterator[int] | None = None
    ) -> None:
        self.model, self.batch, self.seeds = model, batch, seeds
        self.real = batch["attention_mask"][..., None].double()
        self.size = self.real.expand(-1, -1, model.config.hidden_size)
        self.before = self.after = None

    def __call__(self, delta: Tensor | float = 0.0) -> Tensor:
        if self.before is None:
            self.before = torch.get_rng_state()
        elif self.seeds is None:
            torch.set_rng_state(self.before)
        else:
            torch.manual_seed(next(self.seeds))
        words = self.model.get_input_embeddings()(self.batch["input_ids"])
        rest = {name: value for name, value in self.batch.items() if name != "input_ids"}
        loss = self.model(inputs_embeds=words + delta, **rest).loss
        self.after = self.after if self.after is not None else torch.get_rng_state()
        torch.set_rng_state(self.after)
        return loss


def length(x: Tensor, norm: str, over: str) -> Tensor:
    dims = (1, 2) if over == "example" else (2,)
    if norm == "l2":
        return x.pow(2).sum(dims, keepdim=True).sqrt()
    return x.abs().amax(dims, keepdim=True)


def uphill(grad: Tensor, norm: str, step: str, over: str) -> Tensor:
    """The direction of a step: the sign for the inf-norm's steepest one, else the gradient over its norm."""
    if norm == "linf" and step == "steepest":
        return grad.sign()
    return grad / length(grad, norm, over).clamp(min=1e-300)


def clipped(delta: Tensor, radius: float, norm: str, over: str) -> Tensor:
    """Into the ball of this radius, 0 for unbounded as in published scripts."""
    if radius == 0:
        return delta
    if norm == "linf":
        return delta.clamp(-radius, radius)
    exceeds = length(delta, norm, over) > radius
    return torch.where(exceeds, delta * (radius / length(delta, norm, over).clamp(min=1e-300)), delta)


def start(noise: Tensor, real: Tensor, size: float, norm: str, over: str) -> Tensor:
    """FreeLB's start from noise on (-1, 1): over sqrt(real tokens x hidden) for L2, as it is for Linf."""
    if norm == "linf":
        return size * noise * real
    tokens = real.sum((1, 2), keepdim=True) if over == "example" else 1.0
    return size * noise * real / (tokens * noise.shape[-1]) ** 0.5
