"""A small classifier that needs torch only: what `check_method` runs on where it is given no model."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sparring.testing.batches import Batch

VOCABULARY, HIDDEN, CLASSES = 20, 8, 3


class ToyClassifier(nn.Module):
    """Word and position embeddings, one attention layer, the mean over real tokens: a loss and logits."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, HIDDEN, padding_idx=0)
        self.positions = nn.Parameter(torch.randn(32, HIDDEN))
        self.norm = nn.LayerNorm(HIDDEN)
        self.dropout = nn.Dropout(0.1)
        self.mix = nn.Linear(HIDDEN, 3 * HIDDEN)
        self.head = nn.Linear(HIDDEN, CLASSES)

    def get_input_embeddings(self) -> nn.Module:
        return self.words

    def forward(self, input_ids: Tensor, attention_mask: Tensor, labels: Tensor) -> dict[str, Tensor]:
        real = attention_mask[..., None].to(self.positions.dtype)
        hidden = self.dropout(self.norm(self.words(input_ids) + self.positions[: input_ids.shape[1]]))
        query, key, value = self.mix(hidden).chunk(3, dim=-1)
        scores = query @ key.mT / HIDDEN**0.5 + (real.mT - 1) * 1e9
        hidden = hidden + self.dropout(scores.softmax(-1) @ value)
        logits = self.head((hidden * real).sum(1) / real.sum(1).clamp(min=1))
        return {"loss": F.cross_entropy(logits, labels), "logits": logits}


def toy() -> tuple[ToyClassifier, Batch]:
    """The model, and a batch of five texts with padding of unequal length on the right."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = ToyClassifier()
        lengths = torch.tensor([6, 3, 1, 5, 4])
        mask = (torch.arange(6) < lengths[:, None]).long()
        ids = torch.randint(1, VOCABULARY, (5, 6)) * mask
        return model, {"input_ids": ids, "attention_mask": mask, "labels": torch.tensor([0, 1, 2, 0, 1])}
