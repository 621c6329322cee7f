"""Deliberate mistakes in the library; a comparison that still passes under one doesn't test what it should.

Each takes pytest's `monkeypatch`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from sparring.balls import L2, Ball, Linf
from sparring.game import Game
from sparring.randomness import Stream
from sparring.sites import Embeddings

Mutation = Callable[[Any], None]


def descending(patch) -> None:
    ascend = Ball.ascend
    patch.setattr(Ball, "ascend", lambda self, delta, grad, size: ascend(self, delta, grad, -size))


def one_step_less(patch) -> None:
    """The second step of every call is left out."""
    ascend, steps = Ball.ascend, []

    def most(self, delta, grad, size):
        steps.append(None)
        return delta.detach() if len(steps) == 2 else ascend(self, delta, grad, size)

    patch.setattr(Ball, "ascend", most)


def unnormalised(patch) -> None:
    patch.setattr(Ball, "unit", lambda _, grad: grad)


def unsigned(patch) -> None:
    patch.setattr(Linf, "steepest", lambda self, grad: self.unit(grad))


def normed_otherwise(patch) -> None:
    """Norms per example where they should be per token, and the other way round."""

    def other(self, x):
        return (x.ndim - 1,) if self.over == "example" else tuple(range(1, x.ndim))

    patch.setattr(Ball, "_dims", other)


def unprojected(patch) -> None:
    for ball in (L2, Linf):
        patch.setattr(ball, "project", lambda _, delta: delta)


def unmasked(patch) -> None:
    """The perturbation acts on padding too."""
    patch.setattr(
        Embeddings, "_real", lambda self, _module, batch, **_kind: torch.ones_like(self._ids(batch))
    )


def without_clean_gradient(patch) -> None:
    patch.setattr(Game, "backward_and_grad", lambda _, loss, delta: torch.autograd.grad(loss, delta)[0])


def summed(patch) -> None:
    """Without FreeLB's 1 / K."""
    backward = Game.backward
    patch.setattr(Game, "backward", lambda self, loss: backward(self, 3 * loss))


def other_masks(patch) -> None:
    """Each pass draws its own dropout mask where all should share one, and the other way round."""

    class Other(Stream):
        def __init__(self, devices, own, *, same):
            super().__init__(devices, own, same=not same)

    patch.setattr("sparring.method.Stream", Other)


def unrestored_stream(patch) -> None:
    patch.setattr(Stream, "close", lambda _: None)
