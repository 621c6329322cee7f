"""What the checks share: a method, a model, a batch, and a run of them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from sparring.game import Forward, outputs_of
from sparring.method import Method
from sparring.testing.batches import Batch, View, whole
from sparring.testing.watching import GivenNoise, Pass, watching

Gradients = dict[str, Tensor | None]


class NotCheckedError(Exception):
    """Raised by a check that has nothing to say here; its message is the reason."""


def require(holds: bool, message: str) -> None:  # noqa: FBT001  # an assert that no flag switches off
    """AssertionError with the message, unless it holds."""
    if not holds:
        raise AssertionError(message)


@dataclass(frozen=True)
class Setting:
    """A method, a model and a batch.

    Attributes:
        factory: makes the method.
        model: in float64; checks work on copies.
        batch: the model's keyword arguments.
        at_zero: makes the method with sizes 0.
        forward: how the method calls the model.
        unit: the method's unit, as measured on the whole batch.
        items: how many items the loss of a batch is the mean of.
        pad_id: the token id of padding.
        warm_up: how many batches a method sees before it is checked.
        tolerance: what counts as equal, in units of the largest entry.
    """

    factory: Callable[[], Method]
    model: nn.Module
    batch: Batch
    at_zero: Callable[[], Method] | None
    forward: Forward
    unit: float | None
    items: Callable[[Batch], float]
    pad_id: int
    warm_up: int
    tolerance: float

    def subject(self, *, dropout: bool = True) -> nn.Module:
        """A copy of the model, in training mode, or without dropout in evaluation mode."""
        return copy.deepcopy(self.model).train(dropout)

    def method(self, model: nn.Module) -> Method:
        """A method that is ready to be checked on `model`."""
        return self.warmed_up(self.factory(), model)

    def warmed_up(self, method: Method, model: nn.Module) -> Method:
        """`method` after the batches that it must see first, with its unit as on the whole batch."""
        if method.unit is None:
            method.unit = self.unit
        for _ in range(self.warm_up):
            method(model, self.batch)
        return method

    def noise(self, view: View) -> GivenNoise:
        """Inside, an example of the batch has the same random start in whatever `view` it stands."""
        there = whole(self.batch)
        return GivenNoise(view, examples=len(there.rows), tokens=len(there.tokens))


@dataclass(frozen=True)
class Run:
    """What one batch gave: the loss, the gradient of each parameter (None where it has none), the passes."""

    loss: Tensor
    grads: Gradients
    passes: list[Pass]


def play(
    method: Method,
    model: nn.Module,
    batch: Batch,
    *,
    seed: int = 0,
    weight: float = 1.0,
    loss_weight: float | None = None,
    keep: bool = False,
) -> Run:
    """One batch from a seeded global stream; with `keep` its gradient is added to what is there."""
    if not keep:
        model.zero_grad()
    torch.manual_seed(seed)
    with watching() as watch:
        loss = method(model, batch, weight=weight, loss_weight=loss_weight, backward=watch.backward)
    return Run(loss, gradients(model), watch.passes)


def plain(model: nn.Module, batch: Batch, forward: Forward, *, seed: int = 0) -> Run:
    """One batch of plain training, with nothing of ours in it."""
    model.zero_grad()
    torch.manual_seed(seed)
    loss = outputs_of(forward(model, batch)).loss
    if loss is None:
        raise AssertionError("the model returns no loss: make the method with a forward= that does")
    loss.backward()  # type: ignore[no-untyped-call]
    return Run(loss.detach(), gradients(model), [])


def gradients(model: nn.Module) -> Gradients:
    """A copy of every parameter's gradient."""
    return {name: None if p.grad is None else p.grad.clone() for name, p in model.named_parameters()}


def difference(ours: Gradients, theirs: Gradients, within: float) -> str:
    """Where gradients differ by more than `within` times the largest entry, in words; "" where they don't."""
    scale = max((float(grad.abs().max()) for grad in theirs.values() if grad is not None), default=0.0)
    for name, mine in ours.items():
        other = theirs[name]
        if mine is None or other is None:
            if mine is not other:
                return f"{name}, which has {'no' if mine is None else 'a'} gradient"
        elif not torch.allclose(mine, other, rtol=0, atol=within * scale):
            return f"{name}, by {float((mine - other).abs().max()):.2g} (largest entry of all: {scale:.2g})"
    return ""
