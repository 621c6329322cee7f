"""Batches as a loop sees them: how many examples they hold, where they are, which share an optimizer step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from sparring.errors import InputError


def examples(batch: Any) -> int:
    """The number of examples: the first size of the batch's first tensor."""
    for tensor in _tensors(batch):
        if tensor.ndim > 0:
            return tensor.shape[0]
    raise InputError(f"cannot count the examples of a batch: a {type(batch).__name__} that holds no tensors")


def shares(batches: Sequence[Any]) -> list[float]:
    """Each micro-batch's share of the examples of their optimizer step: a method's `weight=`."""
    counts = [examples(batch) for batch in batches]
    return [count / sum(counts) for count in counts]


def groups(batches: Iterable[Any], size: int, times: int = 1) -> Iterator[list[Any]]:
    """The micro-batches of each optimizer step: `size` of them, at the end fewer; each group `times` over."""
    left = iter(batches)
    while group := list(islice(left, size)):
        for _ in range(times):
            yield group


def moved(batch: Any, device: torch.device) -> Any:
    """The batch with all its tensors on `device`."""
    if isinstance(batch, Tensor):
        return batch.to(device)
    if isinstance(batch, Mapping):
        return {key: moved(value, device) for key, value in batch.items()}
    if isinstance(batch, list | tuple):
        return type(batch)(moved(value, device) for value in batch)
    return batch


def _tensors(batch: Any) -> Iterator[Tensor]:
    if isinstance(batch, Tensor):
        yield batch
    elif isinstance(batch, Mapping | list | tuple):
        for value in batch.values() if isinstance(batch, Mapping) else batch:
            yield from _tensors(value)
