"""Perturb what a parameter reads as."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor, nn

from sparring.inject.perturbation import Perturbation


class WeightShift(Perturbation):
    """Inside, each named parameter reads as `w + v`, under every name it has; `w` itself is never written.

    Gradients of the loss reach `w` (and `v`) as if `w + v` had been the parameter. In-place editing and
    undoing would not bring the weights back bit for bit, and a tied output layer must move with its
    embedding.

    Args:
        model: the model that owns the parameters.
        shifts: the shift of each parameter, by its name in `model.named_parameters()`, shaped like it.
    """

    def __init__(self, model: nn.Module, shifts: Mapping[str, Tensor]) -> None:
        super().__init__()
        by_name = dict(model.named_parameters(remove_duplicate=False))
        self.shifts = {id(by_name[name]): shift for name, shift in shifts.items()}
        self.places = [
            (module, name, parameter)
            for module in model.modules()
            for name, parameter in module.named_parameters(recurse=False, remove_duplicate=False)
            if id(parameter) in self.shifts
        ]

    def attach(self) -> None:
        shifted = {id(p): (p + self.shifts[id(p)]).to(p.dtype) for _, _, p in self.places}
        for module, name, parameter in self.places:
            vars(module)[name] = shifted[id(parameter)]  # shadows the parameter: nn.Module looks there first

    def detach(self) -> None:
        for module, name, _ in self.places:
            del vars(module)[name]
