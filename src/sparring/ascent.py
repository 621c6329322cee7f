"""Ascent: the inner maximisation that attacks and methods share. The parameters get no gradient from it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from sparring.errors import InputError

if TYPE_CHECKING:
    from sparring.balls import Ball
    from sparring.game import Game

Objective = Callable[[Tensor], Tensor]


def gradient(game: Game, objective: Objective, delta: Tensor) -> Tensor:
    """The gradient of `objective` at `delta`, shaped like `delta`: one forward and an input-only backward.

    Weight gradients are not even computed. Examples whose gradient is not finite get 0 and are counted.
    """
    delta = delta.detach().requires_grad_()
    value = objective(delta)
    if not value.requires_grad:
        raise InputError("the objective doesn't depend on the perturbation: detached, or under no_grad?")
    with game.recomputable():
        (grad,) = torch.autograd.grad(value, delta, allow_unused=True)
    return game.finite(grad)


def ascend(
    game: Game, objective: Objective, delta: Tensor, ball: Ball, *, steps: int, step_size: float
) -> Tensor:
    """`delta` after `steps` projected ascent steps of norm `step_size` (in the game's units)."""
    for _ in range(steps):
        delta = ball.ascend(delta, gradient(game, objective, delta), step_size)
    return delta
