"""What a call may leave behind: gradients, and nothing else."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from sparring.method import Method
from sparring.randomness import capture, devices_of
from sparring.testing.setting import Setting, plain, play, require

Facts = dict[str, Any]


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
    own_state = random.getstate()
    for call in ("first", "second"):
        plain(model, setting.batch, setting.forward, seed=1)
        expected = capture(devices_of(model))
        play(method, model, setting.batch, seed=1)
        found = capture(devices_of(model))
        for (device, theirs), (_, ours) in zip(expected, found, strict=True):
            require(
                torch.equal(theirs, ours),
                f"the global random stream on {device} is another after the {call} call",
            )
    require(random.getstate() == own_state, "Python's global random stream has moved")


def a_failing_forward_leaves_no_trace(setting: Setting) -> None:
    """Whichever pass raises (out of memory, Ctrl-C), the model is as it was."""
    model = setting.subject()
    last = _count_forwards(setting, model)

    def failing_at(number: int, method: Method) -> Callable[[], Any]:
        calls = 0

        def forward(model: nn.Module, batch: Any) -> Any:
            nonlocal calls
            calls += 1
            outputs = setting.forward(model, batch)
            if calls == number:
                raise FailureError
            return outputs

        return lambda: method(model, setting.batch, forward=forward)

    for number in range(1, last + 1):
        _fails_without_trace(
            model,
            failing_at(number, setting.method(model)),
            f"forward {number} (the first batch's probe included)",
        )


def a_failing_backward_leaves_no_trace(setting: Setting) -> None:
    """The same for the loop's backward."""
    model = setting.subject()

    def fail(_loss: Tensor) -> None:
        raise FailureError

    method = setting.method(model)
    _fails_without_trace(model, lambda: method(model, setting.batch, backward=fail), "the first backward")


# -- what a model is made of --------------------------------------------------------------------------


def values(model: nn.Module) -> Facts:
    """Parameters with a count of the writes to them, and buffers."""
    facts: Facts = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        facts[f"the parameter {name}"] = parameter.detach().clone()
        facts[f"the identity of the parameter {name}"] = id(parameter)
        facts[f"the number of writes to the parameter {name}"] = parameter._version
    facts.update(
        {f"the buffer {name}": buffer.clone() for name, buffer in model.named_buffers(remove_duplicate=False)}
    )
    return facts


def hooks(model: nn.Module) -> Facts:
    """Every dictionary of hooks, of modules and of parameters."""
    facts: Facts = {}
    for name, module in model.named_modules():
        facts.update(
            {f"{key} of {name}": list(value) for key, value in vars(module).items() if _holds_hooks(key)}
        )
    for name, parameter in model.named_parameters():
        facts[f"the hooks of the parameter {name}"] = list(parameter._backward_hooks or {})
        facts[f"the post-accumulation hooks of the parameter {name}"] = list(
            parameter._post_accumulate_grad_hooks or {}
        )
    return facts


def attributes(model: nn.Module) -> Facts:
    """What else modules have, by identity, and the order of their parts."""
    facts: Facts = {"the order of the state dict": list(model.state_dict())}
    for name, module in model.named_modules():
        for key, value in vars(module).items():
            if key in ("_parameters", "_buffers", "_modules"):
                facts[f"{key} of {name}"] = list(value)
            elif key != "training" and not _holds_hooks(key):
                facts[f"the attribute {key} of {name}"] = (
                    value if isinstance(value, int | float | str) else id(value)
                )
    return facts


def flags(model: nn.Module) -> Facts:
    """The mode of every module, and which parameters need a gradient."""
    modes: Facts = {f"the mode of {name}": module.training for name, module in model.named_modules()}
    needs = {
        f"requires_grad of {name}": parameter.requires_grad for name, parameter in model.named_parameters()
    }
    return modes | needs


def _holds_hooks(attribute: str) -> bool:
    return attribute.endswith("hooks") or "_hooks_" in attribute


class FailureError(Exception):
    """Stands for whatever may go wrong in a pass."""


def _stays(setting: Setting, facts_of: Callable[[nn.Module], Facts]) -> None:
    """What `facts_of` says of the model is the same before and after two calls."""
    model = setting.subject()
    method = setting.method(model)
    plain(model, setting.batch, setting.forward)  # models keep things of their own from the first forward on
    list(model.modules())[-1].eval()  # a part in another mode than the rest
    before = facts_of(model)
    for _ in range(2):
        play(method, model, setting.batch)
    _require_same(before, facts_of(model), "a call")


def _fails_without_trace(model: nn.Module, call: Callable[[], Any], what: str) -> None:
    before = [facts_of(model) for facts_of in (values, hooks, attributes, flags)]
    try:
        call()
    except FailureError:
        pass
    else:
        raise AssertionError(f"an exception in {what} was swallowed")
    for facts, facts_of in zip(before, (values, hooks, attributes, flags), strict=True):
        _require_same(facts, facts_of(model), f"an exception in {what}")


def _require_same(before: Facts, after: Facts, what: str) -> None:
    for name in [*before, *(name for name in after if name not in before)]:
        require(name in after, f"{what} removed {name}")
        require(name in before, f"{what} left {name}")
        ours, theirs = after[name], before[name]
        same = torch.equal(ours, theirs) if isinstance(ours, Tensor) else ours == theirs
        require(same, f"{what} changed {name}")


def _count_forwards(setting: Setting, model: nn.Module) -> int:
    """The forwards of a batch, the first batch's probe included; afterwards the model has seen one."""
    method, calls = setting.method(model), 0

    def forward(model: nn.Module, batch: Any) -> Any:
        nonlocal calls
        calls += 1
        return setting.forward(model, batch)

    method(model, setting.batch, forward=forward)
    return calls
