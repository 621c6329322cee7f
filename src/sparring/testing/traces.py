"""What a call may leave behind: gradients, and nothing else."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from sparring.randomness import capture, devices_of
from sparring.testing.facts import EVERYTHING, Facts, attributes, change, flags, hooks, values
from sparring.testing.setting import Setting, plain, play, require


def parameters_and_buffers_stay_bit_equal(setting: Setting) -> None:
    """No weight is written, not even to be written back: adding and subtracting doesn't restore it."""
    _stays(setting, values)


def no_hook_is_left(setting: Setting) -> None:
    """Modules and parameters have the hooks that they had."""
    _stays(setting, hooks)


def no_attribute_is_left(setting: Setting) -> None:
    """Modules have the attributes that they had, and the state dict has its order."""
    _stays(setting, attributes)


def train_and_eval_flags_stay(setting: Setting) -> None:
    """Each module is in the mode that it was in, also a frozen part; what needs a gradient still does."""
    _stays(setting, flags)


def the_random_stream_is_as_plain_training_leaves_it(setting: Setting) -> None:
    """However many passes a batch takes, the next draw (data order, dropout) is that of plain training."""
    model = setting.subject()
    method = setting.method(model)
    pythons = random.getstate()
    for call in ("first", "second"):
        plain(model, setting.batch, setting.forward, seed=1)
        expected = capture(devices_of(model))
        play(method, model, setting.batch, seed=1)
        found = capture(devices_of(model))
        same = all(torch.equal(ours, theirs) for (_, ours), (_, theirs) in zip(found, expected, strict=True))
        require(same, f"after the {call} call torch's global random stream is another")
    require(random.getstate() == pythons, "Python's global random stream has moved")


def a_failing_forward_leaves_no_trace(setting: Setting) -> None:
    """Whichever pass raises (out of memory, Ctrl-C), the model is as it was."""
    model = setting.subject()
    forwards = _Forwards(setting)
    setting.method(model)(model, setting.batch, forward=forwards)
    for number in range(1, forwards.count + 1):
        failing = _Forwards(setting, fail_at=number)
        call = partial(setting.method(model), model, setting.batch, forward=failing)
        what = f"forward {number} of {forwards.count}, the first batch's probe included"
        _fails_without_trace(model, call, what)


def a_failing_backward_leaves_no_trace(setting: Setting) -> None:
    """The same for the loop's backward."""
    model = setting.subject()

    def fail(_loss: Tensor) -> None:
        raise FailureError

    call = partial(setting.method(model), model, setting.batch, backward=fail)
    _fails_without_trace(model, call, "the first backward")


class FailureError(Exception):
    """Stands for whatever may go wrong in a pass."""


class _Forwards:
    """A `forward=` that counts, and fails at one of its calls."""

    def __init__(self, setting: Setting, fail_at: int = 0) -> None:
        self.forward, self.fail_at = setting.forward, fail_at
        self.count = 0

    def __call__(self, model: nn.Module, batch: Any) -> Any:
        self.count += 1
        outputs = self.forward(model, batch)
        if self.count == self.fail_at:
            raise FailureError
        return outputs


def _stays(setting: Setting, facts_of: Callable[[nn.Module], Facts]) -> None:
    """What `facts_of` says of the model is the same before and after two calls."""
    model = setting.subject()
    method = setting.method(model)
    plain(model, setting.batch, setting.forward)  # models keep things of their own from the first forward on
    list(model.modules())[-1].eval()  # a part in another mode than the rest
    before = facts_of(model)
    for _ in range(2):
        play(method, model, setting.batch)
    changed = change(before, facts_of(model))
    require(not changed, f"a call {changed}")


def _fails_without_trace(model: nn.Module, call: Callable[[], Any], what: str) -> None:
    before = [facts_of(model) for facts_of in EVERYTHING]
    try:
        call()
    except FailureError:
        pass
    else:
        raise AssertionError(f"an exception in {what}, was swallowed")
    for facts, facts_of in zip(before, EVERYTHING, strict=True):
        changed = change(facts, facts_of(model))
        require(not changed, f"an exception in {what}, {changed}")
