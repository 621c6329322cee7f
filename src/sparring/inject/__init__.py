"""How a perturbation enters a model: context managers that leave it as it was, also by an exception."""

from sparring.inject.outputs import OutputShift
from sparring.inject.perturbation import Perturbation, recomputed_under
from sparring.inject.weights import WeightShift

__all__ = ["OutputShift", "Perturbation", "WeightShift", "recomputed_under"]
