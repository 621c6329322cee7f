"""The same examples in other batches: fewer of them, in another order, padded further."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

Batch = dict[str, Any]

IDS, MASK, LABELS, IGNORED = "input_ids", "attention_mask", "labels", -100


@dataclass(frozen=True)
class View:
    """A batch made of the examples of another one, and where each came from.

    Attributes:
        batch: the model's keyword arguments.
        rows: for each example, its row in the whole batch.
        tokens: for each position, its position in the whole batch, or None for padding that was added.
    """

    batch: Batch
    rows: list[int]
    tokens: list[int | None]

    @property
    def real(self) -> list[int]:
        """The positions that were not added."""
        return [here for here, there in enumerate(self.tokens) if there is not None]


def whole(batch: Batch) -> View:
    """The batch as it is."""
    examples, tokens = batch[IDS].shape[0], batch[IDS].shape[-1]
    return View(batch, list(range(examples)), list(range(tokens)))


def rows_of(batch: Batch, rows: Sequence[int]) -> View:
    """These examples only, in this order, padded as they were."""
    examples = len(batch[IDS])
    chosen = {
        key: value[list(rows)] if isinstance(value, Tensor) and value.shape[:1] == (examples,) else value
        for key, value in batch.items()
    }
    return View(chosen, list(rows), whole(batch).tokens)


def padded(batch: Batch, pad_id: int, *, left: int = 0, right: int = 0) -> View:
    """Every tensor that has one entry per token gets more padding."""
    shape, fill = batch[IDS].shape, {IDS: pad_id, LABELS: IGNORED}

    def longer(key: str, value: Tensor) -> Tensor:
        ends = [value.new_full((*value.shape[:-1], n), fill.get(key, 0)) for n in (left, right)]
        return torch.cat([ends[0], value, ends[1]], dim=-1)

    longest = {
        key: longer(key, value) if isinstance(value, Tensor) and value.shape == shape else value
        for key, value in batch.items()
    }
    there = whole(batch)
    return View(longest, there.rows, [*[None] * left, *there.tokens, *[None] * right])


def without_last_text(batch: Batch, pad_id: int) -> Batch:
    """The last example has no real token."""
    ids = batch[IDS].clone()
    ids[-1] = pad_id
    empty = {**batch, IDS: ids}
    if MASK in batch:
        empty[MASK] = batch[MASK].clone()
        empty[MASK][-1] = 0
    return empty


def without_labels_that_count(batch: Batch) -> Batch:
    """Every label is the one that losses ignore."""
    return {**batch, LABELS: torch.full_like(batch[LABELS], IGNORED)}


def in_dtype(batch: Batch, dtype: torch.dtype) -> Batch:
    """Floating-point tensors in `dtype`, the rest as it is."""
    return {
        key: value.to(dtype) if isinstance(value, Tensor) and value.is_floating_point() else value
        for key, value in batch.items()
    }
