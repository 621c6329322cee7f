"""Labelled texts, each with the place it came from."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256

Label = int | str


@dataclass(frozen=True)
class Examples:
    """Texts or text pairs, with labels or without.

    Attributes:
        texts: one an example.
        pairs: the second texts, or None.
        labels: as found, integers or strings, or None.
        source: where they come from: a file or a hub data set.
        rows: each example's number there, from 1; by its place where not given.
        unit: what `rows` counts: "line" or "row".
        columns: the columns they were read from, by role (text, pair, label).
        label_names: of integer labels, by number, where the source names them.
    """

    texts: list[str]
    pairs: list[str] | None = None
    labels: list[Label] | None = None
    source: str = "the examples"
    rows: list[int] | None = None
    unit: str = "row"
    columns: dict[str, str] = field(default_factory=dict)
    label_names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        for name, column in (("pairs", self.pairs), ("labels", self.labels), ("rows", self.rows)):
            if column is not None and len(column) != len(self.texts):
                raise ValueError(f"{len(column)} {name} for {len(self.texts)} texts")

    def __len__(self) -> int:
        return len(self.texts)

    def where(self, index: int) -> str:
        """The place of an example, for messages: `train.csv, line 12`."""
        return f"{self.source}, {self.unit} {self.rows[index] if self.rows is not None else index + 1}"

    def select(self, indices: Sequence[int]) -> Examples:
        """The examples at these indices, in this order."""
        rows = self.rows if self.rows is not None else range(1, len(self) + 1)
        return replace(
            self,
            texts=[self.texts[i] for i in indices],
            pairs=None if self.pairs is None else [self.pairs[i] for i in indices],
            labels=None if self.labels is None else [self.labels[i] for i in indices],
            rows=[rows[i] for i in indices],
        )

    def hashes(self) -> list[str]:
        """64 bits of each normalised text (pair) as 16 hexadecimal digits, the same in any file and run."""
        pairs = self.pairs if self.pairs is not None else [None] * len(self)
        return [
            sha256(
                "\n".join(normalised(part) for part in (text, pair) if part is not None).encode()
            ).hexdigest()[:16]
            for text, pair in zip(self.texts, pairs, strict=True)
        ]

    def data_hash(self) -> str:
        """The SHA-256 of the contents, labels included, in order; where they came from doesn't count."""
        digest = sha256()
        for i, text in enumerate(self.texts):
            pair = None if self.pairs is None else self.pairs[i]
            label = None if self.labels is None else self.labels[i]
            digest.update(json.dumps([text, pair, label]).encode() + b"\n")
        return digest.hexdigest()


def normalised(text: str) -> str:
    """Without case, and with one space for each run of white space: equal texts are duplicates."""
    return " ".join(text.casefold().split())
