"""Split examples into training, validation and test data, and draw smaller sets, by hashes of the texts."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from hashlib import sha256
from math import floor

from sparring.data.records import Examples
from sparring.errors import InputError


@dataclass(frozen=True)
class Split:
    """Three parts of a data set, and the rule that made them, in words."""

    train: Examples
    validation: Examples
    test: Examples
    rule: str

    @property
    def counts(self) -> dict[str, int]:
        """How many examples each part has."""
        return {"train": len(self.train), "validation": len(self.validation), "test": len(self.test)}

    def summary(self) -> str:
        """One line to print."""
        return f"{', '.join(f'{name} {count:,}' for name, count in self.counts.items())} ({self.rule})"


def split(examples: Examples, *, validation: float = 0.1, test: float = 0.1, seed: int = 0) -> Split:
    """Split by the texts alone: the same seed gives the same split, whatever the order of the rows.

    Texts that are equal but for case and white space go to one side together. They are lined up by their
    rarest label, and within a label by a hash of seed and text. From the front, each goes to the test data
    where these have less than their share of all rows so far, else to the validation data by the same rule,
    else to the training data. The first of each label is for training. So each label has its share of each
    part, give or take two texts and the weight of duplicates.

    Args:
        examples: labelled or not.
        validation: the share of all rows, from 0 to below 1.
        test: the same.
        seed: another seed is another split.

    Raises:
        InputError: shares that leave nothing for training, or data too few for them.
    """
    shares = {"test": test, "validation": validation}
    for name, share in shares.items():
        if not 0 <= share < 1:
            raise InputError(f"{name} is {share}, but must be a share from 0 to below 1")
    if test + validation >= 1:
        raise InputError(
            f"validation {validation} and test {test} leave nothing for training: make them smaller"
        )
    parts: dict[str, list[int]] = {"test": [], "validation": [], "train": []}
    met, seen = set(), 0
    for label, rows in _groups(examples, seed):
        seen += len(rows)
        lacking = [name for name, share in shares.items() if len(parts[name]) < floor(share * seen + 0.5)]
        parts[lacking[0] if lacking and label in met else "train"] += rows
        met.add(label)
    for name, rows in parts.items():
        if not rows and shares.get(name, 1) > 0:
            counts = ", ".join(f"{key} {len(value)}" for key, value in parts.items())
            raise InputError(
                f"{examples.source} has too few texts to split ({counts}): give the {name} data apart"
            )
    by_label = "" if examples.labels is None else ", each label in proportion"
    return Split(
        **{name: examples.select(sorted(rows)) for name, rows in parts.items()},
        rule=f"split by a hash of the text, seed {seed}{by_label}, duplicates on one side",
    )


def _groups(examples: Examples, seed: int) -> list[tuple[str, list[int]]]:
    """The rarest label and the rows of each distinct text, in the order of `split`."""
    groups: dict[str, list[int]] = defaultdict(list)
    for row, key in enumerate(examples.hashes()):
        groups[key].append(row)
    labels = _labels(examples)
    counts = Counter(labels)
    order = {
        key: (min((counts[labels[i]], labels[i]) for i in rows)[1], _hash(f"split {seed} {key}"))
        for key, rows in groups.items()
    }
    return [(order[key][0], groups[key]) for key in sorted(groups, key=order.__getitem__)]


def subset(examples: Examples, n: int, seed: int = 0) -> Examples:
    """`n` of the examples, all of them if they are fewer, with each label in proportion.

    They are drawn at even steps from the rows ordered by label and hash of seed and text. So the order of
    the rows doesn't matter; it is kept.

    Raises:
        InputError: `n` below 1.
    """
    if n < 1:
        raise InputError(f"a subset of {n} examples was asked for, but it must have at least 1")
    count, labels, keys = len(examples), _labels(examples), examples.hashes()
    pairs = examples.pairs if examples.pairs is not None else [""] * count

    def place(i: int) -> tuple[str, bytes, str, str]:
        return labels[i], _hash(f"subset {seed} {keys[i]}"), examples.texts[i], pairs[i]

    n, ordered = min(n, count), sorted(range(count), key=place)
    drawn = [row for i, row in enumerate(ordered) if (i + 1) * n // count > i * n // count]
    return examples.select(sorted(drawn))


def _labels(examples: Examples) -> list[str]:
    return [""] * len(examples) if examples.labels is None else [str(label) for label in examples.labels]


def _hash(text: str) -> bytes:
    return sha256(text.encode()).digest()
