"""The first batch's self-check: the site is where it is thought to be, and a perturbation there acts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from sparring.errors import InputError
from sparring.game import Forward, outputs_of
from sparring.randomness import devices_of, restore, seeded, untouched
from sparring.sites import Site, Target


def probe(model: nn.Module, batch: Any, site: Site, forward: Forward) -> Target:
    """Find the site in the model by three forwards in evaluation mode that leave no trace, and check it.

    A zero perturbation must reproduce the clean logits (else the perturbed forward is not the clean one's:
    positions or norms applied twice, namisan/mt-dnn#230); a random one must move them (else the method is a
    silent no-op, Tongjilibo/bert4torch#37).

    Raises:
        InputError: saying which of these failed, and what to pass.
    """
    name, module = site.find(model)
    kind = type(model).__name__
    devices = devices_of(model)
    with evaluating(model), torch.no_grad(), untouched(devices):
        seen: list[Any] = []
        handle = module.register_forward_hook(lambda _module, _args, output: seen.append(output))
        try:
            clean = _answer(forward, model, batch, devices)
        finally:
            handle.remove()
        if not seen:
            raise InputError(
                f"{name} of {kind} is not called in a forward, so perturbing it would do nothing; choose "
                "another place with site=Output('name of a module')"
            )
        target = site.target(model, batch, seen)
        support = site.support(target, batch)

        def answer(size: float) -> Tensor:
            noise = torch.randn(support.shape, generator=torch.Generator().manual_seed(0))
            delta = size * noise.to(support) * support
            with site.shift(model, target, delta):
                return _answer(forward, model, batch, devices)

        if not torch.allclose(answer(0.0), clean, equal_nan=True):
            raise InputError(
                f"a perturbation of 0 at {name} changes the logits of {kind}: choose another place with "
                "site=Output('name of a module')"
            )
        testable = bool(support.any()) and bool(clean.isfinite().any())
        if testable and torch.equal(answer(0.1 * (target.norm or 1.0)), clean):
            raise InputError(
                f"a perturbation at {name} doesn't change the logits of {kind}, so training on it would do "
                "nothing; choose another place with site=Output('name of a module')"
            )
    return target


def _answer(forward: Forward, model: nn.Module, batch: Any, devices: list[torch.device]) -> Tensor:
    """The logits (the loss where there are none) of one forward, from a fixed random state."""
    restore(seeded(devices, 0))
    outputs = outputs_of(forward(model, batch))
    answer = outputs.logits if isinstance(outputs.logits, Tensor) else outputs.loss
    if answer is None:
        raise InputError(
            f"{type(model).__name__} returned neither a loss nor logits: pass "
            "forward=lambda model, batch: (loss, logits)"
        )
    return answer


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluation mode inside; afterwards every module is in the mode that it was in."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode
