"""Running means of what a method wants to be seen, read by whoever logs."""

from __future__ import annotations

from torch import Tensor


class Figures:
    """Weighted means since the last `read`; nothing waits for the device until then."""

    def __init__(self) -> None:
        self._sums: dict[str, Tensor] = {}
        self._weights: dict[str, float] = {}

    def add(self, name: str, value: Tensor, weight: float) -> None:
        """Add a scalar whose share in the optimizer step is `weight`."""
        value = value.detach() * weight
        self._sums[name] = self._sums[name] + value if name in self._sums else value
        self._weights[name] = self._weights.get(name, 0.0) + weight

    def read(self) -> dict[str, float]:
        """The means by name, and start anew."""
        means = {name: float(total) / self._weights[name] for name, total in self._sums.items()}
        self._sums.clear()
        self._weights.clear()
        return means
