"""What a call computes, and at which cost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock

from torch import Tensor, nn

from sparring.method import Passes
from sparring.probe import probe
from sparring.testing.setting import Run, Setting, difference, plain, play, require
from sparring.testing.watching import Watch


def the_loss_is_a_detached_scalar(setting: Setting) -> None:
    """For the loop to log."""
    model = setting.subject()
    loss = play(setting.method(model), model, setting.batch).loss
    require(loss.ndim == 0, f"the loss has shape {list(loss.shape)}")
    require(not loss.requires_grad, "the loss is not detached")
    require(bool(loss.isfinite()), f"the loss is {float(loss)}")


def the_same_parameters_have_gradients(setting: Setting) -> None:
    """Those that plain training trains, and no other."""
    require_same_trained(setting, setting.subject())


def two_calls_accumulate(setting: Setting) -> None:
    """`.grad` is the sum over calls, as gradient accumulation needs it."""
    model = setting.subject()
    apart, together = setting.method(model), setting.method(model)
    first = play(apart, model, setting.batch, seed=1).grads
    second = play(apart, model, setting.batch, seed=2).grads
    play(together, model, setting.batch, seed=1)
    both = play(together, model, setting.batch, seed=2, keep=True).grads
    expected = {name: _sum(grad, second[name]) for name, grad in first.items()}
    wrong = difference(both, expected, setting.tolerance)
    require(not wrong, f"the gradients of two calls don't add up at {wrong}")


def passes_are_as_documented(setting: Setting) -> None:
    """A batch costs `method.passes`, the first one's probe apart."""
    model = setting.subject()
    method = setting.method(model)
    forwards, probing = 0, False

    def count(*_: Any) -> None:
        nonlocal forwards
        forwards += not probing

    def uncounted(*args: Any) -> Any:
        nonlocal probing
        probing = True
        try:
            return probe(*args)
        finally:
            probing = False

    model.register_forward_pre_hook(count)
    with mock.patch("sparring.method.probe", uncounted):
        passes = play(method, model, setting.batch).passes
    kinds = [seen.kind for seen in passes]
    found = Passes(**{kind: kinds.count(kind) for kind in ("full", "ascent", "forward")})
    require(forwards == len(passes), f"{forwards} forwards, but {len(passes)} of them through the game")
    require(found == method.passes, f"documented are {method.passes} passes, seen were {found}")


def ascent_passes_compute_no_weight_gradients(setting: Setting) -> None:
    """Weight gradients are for the loop's backward: elsewhere they are wasted, or spoil `.grad`."""
    model = setting.subject()
    method = setting.method(model)
    watch, outside = Watch(), list[str]()

    def seen(name: str) -> Callable[[Tensor], None]:
        return lambda _grad: None if watch.in_backward else outside.append(name)

    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            parameter.register_hook(seen(name))  # type: ignore[no-untyped-call]
    method(model, setting.batch, backward=watch.backward)
    require(not outside, f"outside of game.backward there are gradients of {', '.join(outside[:3])}")


def perturbations_are_zero_on_padding(setting: Setting) -> None:
    """A perturbation acts where the site's support is 1, and is finite."""
    model = setting.subject()
    passes = play(setting.method(model), model, setting.batch).passes
    for number, seen in enumerate(passes, start=1):
        if seen.delta is not None:
            require(bool(seen.delta.isfinite().all()), f"the perturbation of pass {number} is not finite")
            outside = seen.delta * (1 - seen.support)
            require(not outside.any(), f"the perturbation of pass {number} is not 0 on padding")


def require_same_trained(setting: Setting, model: nn.Module) -> Run:
    """A run in which the parameters with a gradient are those of plain training."""
    theirs = plain(model, setting.batch, setting.forward)
    ours = play(setting.method(model), model, setting.batch)
    for name, grad in theirs.grads.items():
        if (ours.grads[name] is None) != (grad is None):
            has, had = ("no", "one") if grad is not None else ("a", "none")
            raise AssertionError(f"{name} has {has} gradient, but {had} in plain training")
    return ours


def _sum(one: Tensor | None, two: Tensor | None) -> Tensor | None:
    return one if two is None else two if one is None else one + two
