"""What an evaluation found. Plain numbers, so that they can be kept as JSON, plotted and compared later."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class AtRadius:
    """How the model stands at one radius. Shares are of all examples where nothing else is said.

    Attributes:
        radius: in units of the evaluation.
        accuracy: right without and under the attack.
        noise_accuracy: right without and under a random perturbation of this norm, which an attack must beat.
        loss: the mean cross-entropy at the strongest points found, in nats.
        class_shares: of the predictions under attack, by class.
        unmoved: of the examples attacked (those right without), the share whose loss the attack didn't raise.
        undefined: the share whose logits under attack aren't finite; they count as wrong.
    """

    radius: float
    accuracy: float
    noise_accuracy: float
    loss: float
    class_shares: tuple[float, ...]
    unmoved: float = 0.0
    undefined: float = 0.0


@dataclass(frozen=True)
class Evaluation:
    """One model on one data set.

    Attributes:
        examples: how many.
        accuracy, macro_f1, calibration_error: without an attack, see `sparring.tasks.classification.metrics`.
        label_shares: of the right classes, by class.
        attack: the attack and its settings.
        unit: the Euclidean length that a radius of 1 has.
        under_attack: from the smallest radius, which is 0, to the largest.
        repeatable: whether the model answered the same batch alike twice.
        passes: what it cost in passes of one example: `forward`, and `ascent` with its input-only backward.
        warnings: what to doubt, a line each.
        rows: what `write_rows` writes about each example; not in `to_dict`.
    """

    examples: int
    accuracy: float
    macro_f1: float
    calibration_error: float
    label_shares: tuple[float, ...]
    attack: str
    unit: float
    under_attack: tuple[AtRadius, ...]
    repeatable: bool
    passes: Mapping[str, int]
    warnings: tuple[str, ...] = ()
    rows: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)

    @property
    def classes(self) -> int:
        """How many classes the model knows."""
        return len(self.label_shares)

    @property
    def majority_share(self) -> float:
        """The accuracy of always answering the most frequent class: the chance level to compare with."""
        return max(self.label_shares)

    @property
    def uniform_chance(self) -> float:
        """The accuracy of guessing evenly among the classes."""
        return 1 / self.classes

    def to_dict(self) -> dict[str, Any]:
        """Everything but the rows, for JSON; `from_dict` reads it."""
        kept = asdict(replace(self, rows=()))
        del kept["rows"]
        return {**kept, "majority_share": self.majority_share, "uniform_chance": self.uniform_chance}

    @classmethod
    def from_dict(cls, kept: Mapping[str, Any]) -> Evaluation:
        """The evaluation that `to_dict` wrote down."""
        known = {f.name: kept[f.name] for f in fields(cls) if f.name != "rows"}
        for name in ("label_shares", "warnings"):
            known[name] = tuple(known[name])
        known["under_attack"] = tuple(
            AtRadius(**{**point, "class_shares": tuple(point["class_shares"])})
            for point in known["under_attack"]
        )
        return cls(**known)

    def write_rows(self, path: Path) -> None:
        """A line of JSON per example: index (and hash), label, prediction, confidence, under_attack.

        The last is the predicted class by radius. null stands for logits that aren't finite.
        """
        with path.open("w", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in self.rows)
