"""Balls: how far a perturbation may go, and which way is up.

A perturbation `delta` has the shape `[examples, ..., hidden]`; a perturbed matrix is one example,
`[1, rows, columns]`. Every function works on each example alone (`over="example"`, one norm over all its
tokens) or on each token alone (`over="token"`, one norm over the last dimension), and keeps the dimensions it
reduces.

Zero gradients give zero steps; rows without support get a zero start; numbers too large to square don't
overflow.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Generator, Tensor

from sparring.errors import InputError


@dataclass(frozen=True)
class Ball(ABC):
    """All perturbations of norm at most `radius`, and the geometry that goes with the norm.

    Args:
        radius: the largest norm, infinite by default, which published scripts write as 0.
        over: what one norm is taken over, a whole `"example"` or each `"token"`.
        step: the direction of an ascent step, `"steepest"` (most ascent for a step of this norm: the sign for
            Linf, one coordinate for L1) or `"scaled"` (the gradient divided by its norm; the same thing for
            L2).
    """

    radius: float = math.inf
    over: Literal["example", "token"] = "example"
    step: Literal["steepest", "scaled"] = "steepest"

    def __post_init__(self) -> None:
        name = type(self).__name__
        if not self.radius >= 0:
            raise InputError(f"{name}: radius is {self.radius}, but must be 0 or more")
        if self.over not in ("example", "token"):
            raise InputError(f"{name}: over is {self.over!r}, but must be 'example' or 'token'")
        if self.step not in ("steepest", "scaled"):
            raise InputError(f"{name}: step is {self.step!r}, but must be 'steepest' or 'scaled'")

    def _dims(self, x: Tensor) -> tuple[int, ...]:
        return tuple(range(1, x.ndim)) if self.over == "example" else (x.ndim - 1,)

    @abstractmethod
    def norm(self, x: Tensor) -> Tensor:
        """The norm of each example (`[examples, 1, ..., 1]`) or token (`[examples, ..., 1]`)."""

    @abstractmethod
    def steepest(self, grad: Tensor) -> Tensor:
        """The direction of norm 1 that rises most along this gradient; 0 where the gradient is 0."""

    @abstractmethod
    def project(self, delta: Tensor) -> Tensor:
        """The nearest point of the ball, by Euclidean distance."""

    @abstractmethod
    def _spread_scale(self, support: Tensor) -> Tensor:
        """What uniform noise on (-1, 1) is divided by, so that a start of size e has a norm of at most e."""

    def unit(self, x: Tensor) -> Tensor:
        """`x` divided by its norm; 0 where it is 0."""
        return x / _nonzero(self.norm(x))

    def spread(self, support: Tensor, generator: Generator | None = None) -> Tensor:
        """Uniform noise where `support` is 1, of norm at most 1: FreeLB's start, `U(-1, 1) / sqrt(N)` for L2.

        `N` is the number of supported coordinates of the example (or token): real tokens x hidden.
        """
        noise = torch.rand(support.shape, generator=generator, dtype=support.dtype, device=support.device)
        return (2 * noise - 1) * support / _nonzero(self._spread_scale(support))

    def ascend(self, delta: Tensor, grad: Tensor, step_size: float) -> Tensor:
        """`delta` after one step of norm `step_size` up the gradient and back into the ball; detached."""
        direction = self.steepest(grad) if self.step == "steepest" else self.unit(grad)
        return self.project(delta.detach() + step_size * direction)

    def mean_norm(self, delta: Tensor, support: Tensor) -> Tensor:
        """The mean norm over the examples (or tokens) that have any support; a scalar."""
        real = self.norm(support) > 0
        return self.norm(delta).sum() / real.sum().clamp(min=1)


@dataclass(frozen=True)
class L2(Ball):
    """The Euclidean ball."""

    def norm(self, x: Tensor) -> Tensor:
        peak = _peak(x, self._dims(x))  # squares of huge numbers would overflow, those of tiny ones vanish
        norm: Tensor = peak * torch.linalg.vector_norm(x / peak, dim=self._dims(x), keepdim=True)
        return norm

    def steepest(self, grad: Tensor) -> Tensor:
        return self.unit(grad)

    def project(self, delta: Tensor) -> Tensor:
        if math.isinf(self.radius):
            return delta
        norm = _nonzero(self.norm(delta))
        radius = torch.full_like(norm, self.radius)  # a number over a tensor is a product with 1 / tensor
        return delta * (radius / norm).clamp(max=1)

    def _spread_scale(self, support: Tensor) -> Tensor:
        return self.norm(support)


@dataclass(frozen=True)
class Linf(Ball):
    """The largest coordinate's ball: every coordinate within the radius."""

    def norm(self, x: Tensor) -> Tensor:
        return x.abs().amax(self._dims(x), keepdim=True)

    def steepest(self, grad: Tensor) -> Tensor:
        return grad.sign()

    def project(self, delta: Tensor) -> Tensor:
        return delta.clamp(-self.radius, self.radius)

    def _spread_scale(self, support: Tensor) -> Tensor:
        return support.new_ones(())


@dataclass(frozen=True)
class L1(Ball):
    """The ball of the sum of absolute coordinates."""

    def norm(self, x: Tensor) -> Tensor:
        return x.abs().sum(self._dims(x), keepdim=True)

    def steepest(self, grad: Tensor) -> Tensor:
        rows = grad.flatten(1) if self.over == "example" else grad
        top = rows.abs().argmax(-1, keepdim=True)
        return torch.zeros_like(rows).scatter_(-1, top, rows.gather(-1, top).sign()).view_as(grad)

    def project(self, delta: Tensor) -> Tensor:
        if math.isinf(self.radius):
            return delta
        # Duchi et al. 2008, figure 1: soft-thresholding by the level at which the norm is the radius
        rows = delta.flatten(1) if self.over == "example" else delta
        sizes = rows.abs().sort(-1, descending=True).values
        levels = (sizes.cumsum(-1) - self.radius) / torch.arange(1, rows.shape[-1] + 1, device=rows.device)
        count = (sizes > levels).sum(-1, keepdim=True).clamp(min=1)
        level = levels.gather(-1, count - 1).clamp(min=0)
        return (rows.sign() * (rows.abs() - level).clamp(min=0)).view_as(delta)

    def _spread_scale(self, support: Tensor) -> Tensor:
        return self.norm(support)


def _nonzero(norm: Tensor) -> Tensor:
    """The norm, with 1 in place of 0: what is divided by it is 0 there anyway."""
    return torch.where(norm == 0, 1, norm)


def _peak(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """The largest absolute coordinate."""
    return _nonzero(x.abs().amax(dims, keepdim=True))
