"""Several processes: a method's passes run unsynchronised, then all gradients are averaged at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


@contextmanager
def synchronised_once(model: nn.Module, method: nn.Module, *, now: bool = True) -> Iterator[None]:
    """Inside, each process keeps its own gradients; on exit, where `now`, all are averaged over processes.

    DistributedDataParallel alone waits for a backward after each forward, and takes `autograd.grad` for none
    (pytorch/pytorch#47562). With one process this does nothing.

    Args:
        model: as the loop calls it, in DistributedDataParallel; other wrappers average gradients themselves.
        method: its own parameters are in no wrapper.
        now: whether an optimizer step is next; under accumulation, for the last micro-batch only.
    """
    ours = isinstance(model, DistributedDataParallel)
    with model.no_sync() if isinstance(model, DistributedDataParallel) else nullcontext():
        yield
    if now and processes() > 1:
        average_gradients([*(model.parameters() if ours else ()), *method.parameters()])


def average_gradients(parameters: Iterable[nn.Parameter]) -> None:
    """The mean of every gradient over the processes, in one all-reduce for each dtype.

    Where a parameter has no gradient it counts as 0; one that has none in any process is left without.
    """
    kinds: dict[tuple[torch.device, torch.dtype], list[nn.Parameter]] = {}
    for parameter in parameters:
        if parameter.requires_grad:
            kinds.setdefault((parameter.device, parameter.dtype), []).append(parameter)
    for alike in kinds.values():
        grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in alike]
        present = grads[0].new_tensor([p.grad is not None for p in alike])
        flat = torch.cat([*(grad.flatten() for grad in grads), present])
        dist.all_reduce(flat)
        *totals, counts = torch.split(flat, [*(grad.numel() for grad in grads), len(grads)])
        for parameter, total, count in zip(alike, totals, counts.tolist(), strict=True):
            if count > 0:
                parameter.grad = (total / processes()).view_as(parameter)


def mean_over_processes(value: float, device: torch.device) -> float:
    """The mean of a figure that each process has its own value of."""
    if processes() == 1:
        return value
    total = torch.tensor(value, device=device)
    dist.all_reduce(total)
    return float(total) / processes()


def broadcast_parameters(method: nn.Module) -> None:
    """Every process begins with the first one's, as DistributedDataParallel sees to for the model's."""
    if processes() > 1:
        with torch.no_grad():
            for parameter in method.parameters():
                dist.broadcast(parameter, 0)


def processes() -> int:
    """How many processes train together."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1
