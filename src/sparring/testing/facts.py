"""What a model is made of, so that it can be compared with itself before and after."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

Facts = dict[str, Any]
"""Names of things, and what they were."""


class Identity:
    """Equal to another one if both hold the same object, which stays alive so that no other takes its id."""

    def __init__(self, held: object) -> None:
        self.held = held

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Identity) and self.held is other.held

    def __hash__(self) -> int:
        return id(self.held)


def values(model: nn.Module) -> Facts:
    """Parameters, with a count of the writes to them, and buffers."""
    facts: Facts = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        facts[f"the parameter {name}"] = parameter.detach().clone()
        facts[f"the identity of the parameter {name}"] = Identity(parameter)
        facts[f"the number of writes to the parameter {name}"] = parameter._version
    for name, buffer in model.named_buffers(remove_duplicate=False):
        facts[f"the buffer {name}"] = buffer.clone()
    return facts


def hooks(model: nn.Module) -> Facts:
    """The keys of every dictionary of hooks, of modules and of parameters."""
    facts: Facts = {}
    for name, module in model.named_modules():
        for key, value in vars(module).items():
            if _holds_hooks(key):
                facts[f"{key} of {name}"] = list(value)
    for name, parameter in model.named_parameters():
        facts[f"the hooks of the parameter {name}"] = list(parameter._backward_hooks or {})
        late = parameter._post_accumulate_grad_hooks
        facts[f"the post-accumulation hooks of the parameter {name}"] = list(late or {})
    return facts


def attributes(model: nn.Module) -> Facts:
    """Whatever else modules have, and the order of their parts."""
    facts: Facts = {"the order of the state dict": list(model.state_dict())}
    for name, module in model.named_modules():
        for key, value in vars(module).items():
            if key in ("_parameters", "_buffers", "_modules"):
                facts[f"{key} of {name}"] = list(value)
            elif key != "training" and not _holds_hooks(key):
                simple = isinstance(value, int | float | str)
                facts[f"the attribute {key} of {name}"] = value if simple else Identity(value)
    return facts


def flags(model: nn.Module) -> Facts:
    """The mode of every module, and which parameters need a gradient."""
    facts: Facts = {f"the mode of {name}": module.training for name, module in model.named_modules()}
    for name, parameter in model.named_parameters():
        facts[f"requires_grad of {name}"] = parameter.requires_grad
    return facts


EVERYTHING: tuple[Callable[[nn.Module], Facts], ...] = (values, hooks, attributes, flags)


def change(before: Facts, after: Facts) -> str:
    """The first fact that is another, in words; "" if all are the same."""
    for name in before | after:
        if name not in after:
            return f"removed {name}"
        if name not in before:
            return f"left {name}"
        old, new = before[name], after[name]
        if not (torch.equal(old, new) if isinstance(old, Tensor) else old == new):
            return f"changed {name}"
    return ""


def _holds_hooks(attribute: str) -> bool:
    return attribute.endswith("hooks") or "_hooks_" in attribute
