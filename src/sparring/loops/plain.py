"""Plain PyTorch: the whole training loop, to be used, read, or copied."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from math import ceil
from pathlib import Path
from typing import Any, Protocol

from torch import nn
from torch.nn.utils import clip_grad_norm_
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from sparring.anatomy import unwrap
from sparring.errors import InputError
from sparring.game import Forward
from sparring.loops.batches import groups, moved, shares
from sparring.loops.run import Run
from sparring.method import Method, check


class Batches(Protocol):
    """What batches are read from: a DataLoader, or a list."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Any]: ...


def fit(
    model: nn.Module,
    loader: Batches,
    method: Method,
    optimizer: Optimizer,
    *,
    epochs: int = 1,
    scheduler: LRScheduler | None = None,
    clip: float = 1.0,
    accumulate: int = 1,
    forward: Forward | None = None,
    on_step: Callable[[int, dict[str, float]], Any] | None = None,
    checkpoint: str | Path | None = None,
    save_every: int = 100,
    resume: bool = False,
) -> None:
    """Train `model` by `method`, for `epochs * ceil(len(loader) / accumulate)` optimizer steps.

    A run that was stopped and resumed ends with the weights of an unbroken one, bit for bit. A method that
    replays its batches takes no more steps, on fewer passes over the data: FreeAT's epochs are divided by its
    replays.

    Args:
        model: on the device where it is to be trained; `fit` puts it into training mode.
        loader: has a length, and yields batches of tensors, which are moved to the model's device.
        method: stands where `loss.backward()` stood.
        optimizer: of the model's parameters and `*method.param_groups()`.
        epochs: how often to go through the data.
        scheduler: stepped after each optimizer step.
        clip: the largest norm of the model's gradient and, apart from it, of the method's own parameters'.
        accumulate: batches to an optimizer step; each counts by its share of their examples.
        forward: as for the method.
        on_step: called after each optimizer step with its number (from 1) and figures: `loss`, `grad_norm`
            before clipping, `learning_rate`, `adv/...`. It leaves mode and random state alone.
        checkpoint: the file to keep the run in.
        save_every: optimizer steps from one checkpoint to the next; the last step has one, too.
        resume: go on from `checkpoint`.

    Raises:
        InputError: an argument is wrong, or the checkpoint can't be read or written, or is another run's.
    """
    if resume and checkpoint is None:
        raise InputError("resume=True needs the file to go on from: pass checkpoint='...'")
    steps_per_epoch = ceil(_length(loader) / check("accumulate", accumulate, least=1))
    total_steps = check("epochs", epochs, least=1) * steps_per_epoch
    check("save_every", save_every, least=1)
    check("clip", clip, above=0)
    device = next(model.parameters()).device
    parts = {"model": unwrap(model), "method": method, "optimizer": optimizer, "scheduler": scheduler}
    run = Run(model, loader, pass_steps=steps_per_epoch * method.replays, parts=parts)
    method.begin(total_steps=total_steps, steps_per_epoch=steps_per_epoch)
    if resume:
        run.load(Path(checkpoint or ""))
    model.train()
    hook = optimizer.register_step_post_hook(method.after_step)
    try:
        while run.step < total_steps:
            batches = run.one_pass(groups(loader, accumulate, times=method.replays))
            for group in islice(batches, total_steps - run.step):
                optimizer.zero_grad()
                losses = [
                    method(model, moved(batch, device), weight=share, forward=forward)
                    for batch, share in zip(group, shares(group), strict=True)
                ]
                norm = clip_grad_norm_(model.parameters(), clip)
                clip_grad_norm_([*method.parameters()], clip)  # apart: they can be hundreds of times as large
                rate = optimizer.param_groups[0]["lr"]
                optimizer.step()
                if scheduler is not None:
                    scheduler.step()
                run.step += 1
                if on_step is not None:
                    figures = {"loss": sum(losses), "grad_norm": norm, "learning_rate": rate}
                    on_step(run.step, {k: float(v) for k, v in figures.items()} | method.read_figures())
                if checkpoint is not None and (run.step % save_every == 0 or run.step == total_steps):
                    run.save(Path(checkpoint))
    finally:
        hook.remove()


def _length(loader: Batches) -> int:
    try:
        return int(check("the number of batches in the loader", len(loader), least=1))
    except TypeError as error:
        raise InputError("the loader has no length: fit has to know the batches of an epoch") from error
