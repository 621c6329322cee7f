"""Evaluation texts that the model was trained on: an accuracy on them is a memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Leaks:
    """Which evaluation texts were training texts.

    Attributes:
        examples: how many were evaluated.
        rows: those found in the training data, counted from 0 in the order of the evaluation data.
    """

    examples: int
    rows: tuple[int, ...]

    @property
    def count(self) -> int:
        """How many were found."""
        return len(self.rows)

    def warning(self, *, first: int = 3) -> str | None:
        """One line that gives the first rows found; None where there are none."""
        if not self.rows:
            return None
        rows = ", ".join(map(str, self.rows[:first])) + (", ..." if self.count > first else "")
        return (
            f"{self.count} of {self.examples} evaluation texts ({self.count / self.examples:.1%}) occur in "
            f"the training data (counted from 0: {rows}): on them, accuracy measures memory"
        )


def find_leaks(evaluation: Sequence[str], training: Iterable[str]) -> Leaks:
    """Compare the hashes of the evaluation texts, in order, with those of the training texts."""
    known = frozenset(training)
    return Leaks(len(evaluation), tuple(row for row, text in enumerate(evaluation) if text in known))
