"""The game of one batch: its loss as a function of the perturbation, and the way back to the parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Generator, Tensor, nn

from sparring.errors import InputError
from sparring.inject import Perturbation, recomputed_under
from sparring.randomness import Stream
from sparring.sites import Site, Target


class Outputs(NamedTuple):
    """What a pass gave: a scalar loss, logits where there are any, and whatever the model returned."""

    loss: Tensor | None
    logits: Tensor | None
    raw: Any


Forward = Callable[[nn.Module, Any], Any]
Backward = Callable[[Tensor], Any]


def call(model: nn.Module, batch: Any) -> Any:
    """The default `forward=`: Hugging Face's convention."""
    return model(**batch)


def backward(loss: Tensor) -> None:
    """The default `backward=`."""
    loss.backward()  # type: ignore[no-untyped-call]


def outputs_of(value: Any) -> Outputs:
    """Read what a `forward=` returned: a loss, a tuple (loss, logits, ...), or a mapping with both."""
    if isinstance(value, Tensor):
        return Outputs(value, None, value)
    if isinstance(value, Mapping):
        return Outputs(value.get("loss"), value.get("logits"), value)
    if isinstance(value, tuple) and value:
        return Outputs(value[0], value[1] if len(value) > 1 else None, value)
    raise InputError(
        f"the forward returned {type(value).__name__}: return a loss, a tuple (loss, logits) or a dict with "
        "both; for a model that returns no loss pass forward=lambda model, batch: (loss, logits)"
    )


@dataclass
class Game:
    """One batch's min-max game. A method plays it; a loop never sees it.

    Attributes:
        model: the model, as the loop calls it.
        batch: what the loop passes to `forward`.
        site, target: where the perturbation acts, and what the probe found there.
        unit: the Euclidean length of a perturbation of norm 1, so that sizes are the same for every model.
        stream: keeps dropout masks over the passes, and the global random stream as one pass leaves it.
        step: the optimizer step that the batch belongs to, counted from 0.
        forward, step_back: how the loop runs a forward and a backward.
        weight: the micro-batch's share of the optimizer step, for regularisers: they are means over examples.
        loss_weight: the factor on the task loss: `weight`, unless the loop's `forward` has scaled it already.
        skipped: how many examples had a gradient that is not finite, over all ascent steps.
    """

    model: nn.Module
    batch: Any
    site: Site
    target: Target
    unit: float
    stream: Stream
    step: int = 0
    forward: Forward = call
    step_back: Backward = backward
    weight: float = 1.0
    loss_weight: float = 1.0
    skipped: Tensor | None = None
    _pending: list[Perturbation | None] = field(default_factory=list, init=False)

    def outputs(self, delta: Tensor | None = None) -> Outputs:
        """One forward, with the perturbation `delta` (in units) or without any."""
        shift = None if delta is None else self.site.shift(self.model, self.target, delta * self.unit)
        with self.stream.one_pass(), shift or nullcontext(), recomputed_under(self.model, shift) as bound:
            outputs = outputs_of(self.forward(self.model, self.batch))
        if torch.is_grad_enabled() and not bound:
            self._pending.append(shift)
        return outputs

    def loss(self, delta: Tensor | None = None) -> Tensor:
        """The task loss as a function of the perturbation, weighted as the loop weighs it; a scalar."""
        loss = self.outputs(delta).loss
        if loss is None or loss.ndim > 0:
            what = "no loss" if loss is None else f"a loss of shape {list(loss.shape)}, not a scalar"
            raise InputError(
                f"{type(self.model).__name__} returned {what}: put labels into the batch, or pass "
                "forward=lambda model, batch: (loss, logits)"
            )
        return loss if self.loss_weight == 1.0 else loss * self.loss_weight

    def backward(self, loss: Tensor) -> None:
        """Add the gradient of `loss` to the parameters' `.grad`, the way the loop does."""
        with self.recomputable():
            self.step_back(loss)

    def backward_and_grad(self, loss: Tensor, delta: Tensor) -> Tensor:
        """`backward`, and the gradient at the leaf `delta` out of the same pass; `finite`."""
        self.backward(loss)
        grad, delta.grad = delta.grad, None
        return self.finite(grad)

    def zeros(self) -> Tensor:
        """The perturbation that does nothing, shaped as the site wants it."""
        return torch.zeros_like(self.support())

    def support(self) -> Tensor:
        """1 where a perturbation may act, 0 on padding; shaped like a perturbation."""
        return self.site.support(self.target, self.batch)

    def noise(self) -> Generator:
        """A generator for a random start, seeded by the method's own random numbers."""
        return Generator(self.target.device).manual_seed(self.stream.own.getrandbits(62))

    def finite(self, grad: Tensor | None) -> Tensor:
        """`grad` with 0 on padding, and in examples where it is not finite, which are counted."""
        if grad is None:
            raise InputError(
                f"no gradient reaches {self.target.name or 'the model'}: is its output detached, or used "
                "under no_grad?"
            )
        grad = torch.where(self.support() > 0, grad, 0)  # some models let padding leak into the loss
        good = grad.isfinite().flatten(1).all(1).view(-1, *[1] * (grad.ndim - 1))
        bad = (~good).sum()
        self.skipped = bad if self.skipped is None else self.skipped + bad
        return torch.where(good, grad, 0)

    @contextmanager
    def recomputable(self) -> Iterator[None]:
        """A backward inside finds the pass's perturbation in force, where it recomputes parts of the forward.

        Raises:
            InputError: a model that checkpoints by itself doesn't tell which of several passes, or calls of
                the perturbed module, it recomputes.
        """
        passes, self._pending = self._pending, []
        shifts = [shift for shift in passes if shift is not None]
        if not shifts:
            yield
            return
        calls = shifts[-1].calls
        with shifts[-1].at(0):
            yield
            if shifts[-1].calls > 0 and (len(passes) > 1 or calls > 1):
                raise InputError(
                    f"{type(self.model).__name__} recomputes {self.target.name or 'its forward'} by torch's "
                    "checkpoint, and doesn't tell under which perturbation: turn its checkpointing off"
                )
