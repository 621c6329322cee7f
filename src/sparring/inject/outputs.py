"""Perturb what a module returns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from sparring.errors import InputError
from sparring.inject.perturbation import Perturbation


class OutputShift(Perturbation):
    """Inside, the `call`-th output of `module` in a forward is `output + delta`, in the output's own dtype.

    Args:
        module: returns a tensor, or a tuple whose first element is the tensor meant.
        delta: shaped like that output; the sum is taken in the wider of both dtypes, then rounded once.
        call: which call in a forward is perturbed; of an encoder and a decoder the encoder calls first.
    """

    def __init__(self, module: nn.Module, delta: Tensor, *, call: int = 0) -> None:
        super().__init__()
        self.module, self.delta, self.call = module, delta, call
        self._handle: RemovableHandle | None = None

    def attach(self) -> None:
        self._handle = self.module.register_forward_hook(self._add)

    def detach(self) -> None:
        assert self._handle is not None
        self._handle.remove()

    def _add(self, _module: nn.Module, _args: Any, output: Any) -> Any:
        self.calls += 1
        if self.calls - 1 != self.call:
            return output
        return with_first(output, lambda x: (x + self.delta.to(x.device)).to(x.dtype))


def first(output: Any) -> Tensor:
    """The tensor that a module's output is, or begins with."""
    value = output[0] if isinstance(output, tuple) and output else output
    if not isinstance(value, Tensor):
        raise InputError(f"the module returns {type(value).__name__}, not a tensor or a tuple with one first")
    return value


def with_first(output: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """The output with `change` applied to the tensor that it is, or begins with."""
    if isinstance(output, tuple):
        return (change(first(output)), *output[1:])
    return change(first(output))
