"""FGM on the embedding matrix: the idiom of competition code, which edits the weights and puts them back."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def fgm_matrix(model: nn.Module, batch: dict[str, Tensor], *, epsilon: float) -> Tensor:
    matrix = model.get_input_embeddings().weight
    before = torch.get_rng_state()
    clean = model(**batch).loss
    clean.backward()
    after = torch.get_rng_state()
    backup = matrix.detach().clone()
    with torch.no_grad():
        matrix.add_(epsilon * matrix.grad / matrix.grad.norm())  # one norm over the whole matrix
    torch.set_rng_state(before)
    adversarial = model(**batch).loss
    adversarial.backward()
    with torch.no_grad():
        matrix.copy_(backup)
    torch.set_rng_state(after)
    return (clean + adversarial).detach()
