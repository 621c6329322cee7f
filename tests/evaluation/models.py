"""Classifiers with a known fault, and texts for them."""

from __future__ import annotations

import torch
from torch import nn

from tests import tiny
from tests.attacks.linear import Mean, answered, mean

LENGTHS = (7, 4, 6, 2, 5, 3, 7, 2, 4, 6)


def setting(kind: type[Mean] = Mean, *, classes: int = 2, wrong: int = 2) -> tuple[Mean, dict]:
    """A model and ten texts, `wrong` of which it answers wrongly."""
    model = mean(kind, classes=classes)
    batch = answered(model, tiny.batch(lengths=LENGTHS))
    batch["labels"][:wrong] = (batch["labels"][:wrong] + 1) % classes
    return model, batch


class Table(nn.Module):
    """Answers by its first word: its logits are that word's vector."""

    def __init__(self, probabilities: list[list[float]]) -> None:
        super().__init__()
        self.words = nn.Embedding.from_pretrained(torch.tensor(probabilities, dtype=torch.float64).log())

    def forward(self, input_ids, attention_mask, labels):
        return {"logits": self.words(input_ids)[:, 0]}


class Masked(Mean):
    """Moves with its words, but its gradient says that it doesn't."""

    def tail(self, logits):
        return logits.detach() + 0 * logits


class Rounding(Masked):
    """Masked, and a pass with a gradient rounds otherwise than one without."""

    def tail(self, logits):
        return super().tail(logits) * (1 - 1e-7 * torch.is_grad_enabled())


class Random(Mean):
    """Drops out in evaluation mode too."""

    def tail(self, logits):
        return nn.functional.dropout(logits, 0.5, training=True)


class Crowd(Mean):
    """Answers by comparing with the rest of the batch."""

    def tail(self, logits):
        return logits - logits.mean(0)


class Overflowing(Mean):
    """Leaves the numbers as soon as an answer is less sure than `least`."""

    least = 0.0

    def tail(self, logits):
        sure = (logits[:, :1] - logits[:, 1:]).abs()
        return torch.where(sure < self.least, float("nan"), logits)
