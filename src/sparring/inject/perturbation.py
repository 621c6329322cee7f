"""A perturbation in force, and how it outlives its forward where gradient checkpointing recomputes that."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from torch import nn
from torch.utils.checkpoint import checkpoint


class Perturbation(ABC):
    """A context manager: inside, the model computes with the perturbation; entered twice, it acts once."""

    def __init__(self) -> None:
        self.depth = 0
        self.calls = 0  # calls of the perturbed module seen in this forward

    @abstractmethod
    def attach(self) -> None:
        """Put the perturbation in force."""

    @abstractmethod
    def detach(self) -> None:
        """Leave the model exactly as it was."""

    def __enter__(self) -> None:
        if self.depth == 0:
            self.attach()
        self.depth += 1

    def __exit__(self, *_: object) -> None:
        self.depth -= 1
        if self.depth == 0:
            self.detach()

    @contextmanager
    def at(self, calls: int) -> Iterator[None]:
        """In force as it was when `calls` calls had been seen."""
        now, self.calls = self.calls, calls
        try:
            with self:
                yield
        finally:
            self.calls = now


@contextmanager
def recomputed_under(model: nn.Module, perturbation: Perturbation | None) -> Iterator[bool]:
    """Blocks checkpointed inside are recomputed under `perturbation`, whenever their backward comes.

    Without it a block is recomputed after the perturbation has been taken away, and the gradient is silently
    wrong (huggingface/peft#2826). Re-entrant checkpointing forbids `autograd.grad` (pytorch/pytorch#51743),
    so it gives way to the other kind inside. Yields whether the model checkpoints by Hugging Face's protocol.
    """
    flagged = [m for m in model.modules() if vars(m).get("gradient_checkpointing")]
    blocks = [m for m in flagged if "_gradient_checkpointing_func" in vars(m)]
    before = [vars(m)["_gradient_checkpointing_func"] for m in blocks]
    if perturbation is None:
        yield bool(blocks)
        return
    bound = {id(run): _bound(run, perturbation) for run in before}
    try:
        for block, run in zip(blocks, before, strict=True):
            vars(block)["_gradient_checkpointing_func"] = bound[id(run)]
        yield bool(blocks)
    finally:
        for block, run in zip(blocks, before, strict=True):
            vars(block)["_gradient_checkpointing_func"] = run


def _bound(run: Callable[..., Any], perturbation: Perturbation) -> Callable[..., Any]:
    if isinstance(run, partial) and run.func is checkpoint:
        run = partial(run, use_reentrant=False)

    def bound(block: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        calls = perturbation.calls
        runs = 0

        def again(*args: Any, **kwargs: Any) -> Any:
            nonlocal runs
            runs += 1
            if runs == 1:  # the forward itself, under the perturbation already
                return block(*args, **kwargs)
            with perturbation.at(calls):
                return block(*args, **kwargs)

        return run(again, *args, **kwargs)

    return bound
