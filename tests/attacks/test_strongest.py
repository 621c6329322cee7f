"""The strongest point is a wrong answer, and among right ones that of the highest loss."""

from __future__ import annotations

import torch
from torch import Tensor

from sparring.attacks import EmbeddingPGD
from sparring.attacks.strongest import Strongest, cross_entropy
from tests import tiny
from tests.attacks.linear import mean
from tests.tiny import assert_close

LABELS = torch.tensor([0, 0])
SURE, UNSURE = [2.0, 0.0, 0.0], [0.4, 0.3, 0.3]
WRONG = [0.7, 1.0, -3.0]  # of a lower loss than UNSURE


def search() -> Strongest:
    batch = {**tiny.batch(lengths=(3, 2)), "labels": LABELS}
    game = EmbeddingPGD()._game(mean(classes=3), batch)
    return Strongest(game, LABELS, logits(SURE, SURE))


def logits(*rows: list[float]) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64)


def loss(row: list[float]) -> float:
    return cross_entropy(logits(row), LABELS[:1]).item()


def norms(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def test_a_wrong_answer_is_stronger_than_a_higher_loss():
    assert loss(SURE) < loss(WRONG) < loss(UNSURE)
    found = search()
    assert found.note(torch.tensor([0, 1]), logits(UNSURE, UNSURE), norms(1, 1)).tolist() == [True, True]
    assert found.note(torch.tensor([0, 1]), logits(WRONG, UNSURE), norms(2, 2)).tolist() == [False, True]
    assert found.prediction.tolist() == [1, 0]
    assert_close(found.loss, norms(loss(WRONG), loss(UNSURE)))
    assert_close(found.norm, norms(2, 1))
    assert found.standing().tolist() == [1]


def test_among_right_answers_the_highest_loss_is_the_strongest():
    found = search()
    found.note(torch.tensor([1]), logits(UNSURE), norms(1))
    found.note(torch.tensor([1]), logits(SURE), norms(2))
    assert_close(found.loss, norms(loss(SURE), loss(UNSURE)))
    assert_close(found.norm, norms(0, 1))
    assert found.standing().tolist() == [0, 1]
