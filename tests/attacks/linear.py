"""A classifier whose robustness is known exactly: linear in the mean of a text's words."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tests.tiny import VOCABULARY, assert_close, made

WRONG = 5
"""The example of the fixture `texts` that the model answers wrongly."""


class Mean(nn.Module):
    """Logits are linear in the mean over a text's real words; `tail` is what a test puts behind them."""

    def __init__(self, *, classes: int = 2, hidden: int = 6) -> None:
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, hidden)
        self.head = nn.Linear(hidden, classes)

    def forward(self, input_ids: Tensor, attention_mask: Tensor, labels: Tensor | None = None) -> dict:
        real = attention_mask[..., None].double()
        return {"logits": self.tail(self.head((self.words(input_ids) * real).sum(1) / real.sum(1)))}

    def tail(self, logits: Tensor) -> Tensor:
        return logits


def mean(kind: type[Mean] = Mean, *, seed: int = 4, **options) -> Mean:
    return made(kind, seed=seed, **options)


def answered(model: nn.Module, batch: dict[str, Tensor]) -> dict[str, Tensor]:
    """The batch, labelled as the model answers it."""
    training = model.training
    with torch.no_grad():
        labels = model.eval()(**batch)["logits"].argmax(1)
    model.train(training)
    return {**batch, "labels": labels}


def part(batch: dict[str, Tensor], rows: list[int]) -> dict[str, Tensor]:
    return {name: value[rows] for name, value in batch.items()}


def assert_same(one, other, *, rows=slice(None)):
    """Two attacks found the same; the first of the second's `rows` only."""
    for name in ("clean", "attacked", "clean_loss", "loss", "norm"):
        assert_close(getattr(one, name), getattr(other, name)[rows], tolerance=1e-9)
