"""The labels that a classifier knows, and their numbers in its output."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from sparring.data.records import Examples, Label
from sparring.data.wording import did_you_mean, listed, shown
from sparring.errors import InputError

_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?")


@dataclass(frozen=True)
class LabelSet:
    """Labels by name; a name's place is its id, its column in the logits."""

    names: tuple[str, ...]

    @classmethod
    def of(cls, examples: Examples) -> LabelSet:
        """The labels of training data, sorted, by number where all are numbers.

        Where their source names integer labels, its names and their order are kept.

        Raises:
            InputError: fewer than two classes.
        """
        found = {str(label) for label in _labels(examples)}
        if len(found) < 2:
            raise InputError(
                f"{examples.source} has one class only ({listed(found)}): a classifier needs two"
            )
        if examples.label_names is not None:
            return cls(examples.label_names)
        if all(_NUMBER.fullmatch(name) for name in found):
            return cls(tuple(sorted(found, key=lambda name: (float(name), name))))
        return cls(tuple(sorted(found)))

    @classmethod
    def from_config(cls, id2label: Mapping[int, str] | Mapping[str, str]) -> LabelSet:
        """The labels of a model's configuration, or of a file with the same content."""
        by_id = {int(key): str(name) for key, name in id2label.items()}
        if sorted(by_id) != list(range(len(by_id))):
            raise InputError(
                f"id2label must number the labels from 0 without a gap, but has {listed(sorted(by_id))}"
            )
        return cls(tuple(by_id[i] for i in range(len(by_id))))

    def __len__(self) -> int:
        return len(self.names)

    @property
    def id2label(self) -> dict[int, str]:
        """For a model's configuration."""
        return dict(enumerate(self.names))

    @cached_property
    def label2id(self) -> dict[str, int]:
        """For a model's configuration."""
        return {name: i for i, name in enumerate(self.names)}

    def encode(self, examples: Examples) -> list[int]:
        """The ids of the examples' labels.

        A label is known by its name, by the name that its source gives to the number, or, where the model has
        the names LABEL_0, LABEL_1 and so on, by that number. Case counts only where names differ in nothing
        else.

        Raises:
            InputError: a label is none of these.
        """
        return [self._id(label, i, examples) for i, label in enumerate(_labels(examples))]

    def _id(self, label: Label, index: int, examples: Examples) -> int:
        for name in _names(label, examples.label_names):
            found = self.label2id.get(name, self._folded.get(name.casefold()))
            if found is not None:
                return found
        raise InputError(
            f"{examples.where(index)}: the model doesn't know the label {shown(label)}; "
            f"it knows {listed(self.names)}{did_you_mean(label, self.names) or '; rename it or drop the row'}"
        )

    @cached_property
    def _folded(self) -> dict[str, int]:
        """Ids by name without case, where only one name has it."""
        folded = [name.casefold() for name in self.names]
        return {name: i for i, name in enumerate(folded) if folded.count(name) == 1}


def _names(label: Label, label_names: tuple[str, ...] | None) -> list[str]:
    names = [str(label)]
    if label_names is not None and isinstance(label, int) and 0 <= label < len(label_names):
        names.append(label_names[label])
    return [*names, f"LABEL_{label}"]


def _labels(examples: Examples) -> list[Label]:
    if examples.labels is None:
        raise InputError(f"{examples.source} has no labels")
    return examples.labels
