"""The strongest point that an attack has found so far, for each example of a batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from sparring.ascent import gradient
from sparring.errors import InputError
from sparring.game import Game

Batch = Mapping[str, Any]

UNDEFINED = -1
"""The prediction where logits are not finite: wrong, whatever the label."""


class Strongest:
    """For each example the point where its answer is wrong, else that of the highest loss.

    Args:
        game: of the whole batch.
        labels: the right classes, `[examples]`.
        logits: without a perturbation, `[examples, classes]`: the first point.
    """

    def __init__(self, game: Game, labels: Tensor, logits: Tensor) -> None:
        sequences = len(game.support())
        if sequences != len(labels):
            raise InputError(f"{len(labels)} labels for {sequences} sequences: an attack needs one each")
        self.game, self.labels = game, labels
        self.prediction, self.loss = predicted(logits), cross_entropy(logits, labels)
        self.norm = torch.zeros_like(self.loss)
        self.forward, self.ascent = len(labels), 0  # passes of one example so far

    def standing(self) -> Tensor:
        """The rows of the examples whose answer is still right."""
        return (self.prediction == self.labels).nonzero()[:, 0]

    def part(self, rows: Tensor) -> Game:
        """The game of these examples alone."""
        return replace(self.game, batch=_take(self.game.batch, rows, len(self.labels)))

    def look(self, rows: Tensor, delta: Tensor, *, ascent: bool) -> tuple[Tensor, Tensor]:
        """The logits of these examples at `delta`, and with `ascent` each one's gradient there, else 0."""
        game, labels = self.part(rows), self.labels[rows]
        if not ascent:
            self.forward += len(rows)
            with torch.no_grad():
                return logits_of(game, delta, labels), torch.zeros_like(delta)
        self.ascent += len(rows)
        seen = []

        def objective(delta: Tensor) -> Tensor:
            logits = logits_of(game, delta, labels)
            seen.append(logits.detach())
            return cross_entropy(logits, labels).sum()  # not the mean: each example's gradient is its own

        with torch.enable_grad():  # the caller may be an evaluation loop under no_grad
            grad = gradient(game, objective, delta)
        return seen[0], grad

    def note(self, rows: Tensor, logits: Tensor, norm: Tensor) -> Tensor:
        """Keep the points stronger than those known. Returns where the answer is still right, `[rows]`."""
        prediction, loss = predicted(logits), cross_entropy(logits, self.labels[rows])
        standing = prediction == self.labels[rows]
        stronger = ~standing | (loss > self.loss[rows])
        at = rows[stronger]
        self.prediction[at] = prediction[stronger]
        self.loss[at] = loss[stronger]
        self.norm[at] = norm[stronger].to(self.norm)
        return standing


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Each example's loss in nats: logits `[examples, classes]` to `[examples]`.

    Written as `softplus(logsumexp(others) - right)`: the usual form rounds to 0 in float32 where a model is
    sure by a margin of 17, this one at 87. So an attack sees the loss rise of a model that is only very sure.
    """
    wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
    right = labels[:, None]
    others = wide.scatter(1, right, float("-inf")).logsumexp(1)
    return F.softplus(others - wide.gather(1, right)[:, 0], threshold=40)


def predicted(logits: Tensor) -> Tensor:
    """The class of the largest logit, UNDEFINED where one isn't finite; `[examples]`."""
    return torch.where(logits.isfinite().all(1), logits.argmax(1), UNDEFINED)


def logits_of(game: Game, delta: Tensor | None, labels: Tensor) -> Tensor:
    """The logits under a perturbation, `[examples, classes]`, which must fit the labels."""
    logits = game.outputs(delta).logits
    if logits is None or logits.ndim != 2 or len(logits) != len(labels):
        what = "no logits" if logits is None else f"logits of shape {list(logits.shape)}"
        raise InputError(f"{type(game.model).__name__} returned {what} for {len(labels)} texts")
    low, high, classes = int(labels.min()), int(labels.max()), logits.shape[1]
    if classes < 2 or low < 0 or high >= classes:
        raise InputError(f"labels go from {low} to {high}, but the model's logits are for {classes} classes")
    return logits


def labels_of(batch: Batch) -> Tensor:
    """The batch's labels, one class per example: `[examples]`."""
    labels = batch.get("labels")
    if not isinstance(labels, Tensor) or labels.ndim != 1 or not len(labels) or labels.is_floating_point():
        raise InputError("an attack needs the class of each example: batch['labels'], integers, [examples]")
    return labels


def _take(batch: Batch, rows: Tensor, examples: int) -> dict[str, Any]:
    """These rows of everything in the batch that has one row per example."""
    return {
        key: value[rows] if isinstance(value, Tensor) and value.ndim and len(value) == examples else value
        for key, value in batch.items()
    }
