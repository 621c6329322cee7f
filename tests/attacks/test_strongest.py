"""The strongest point is a wrong answer, and among right ones that of the highest loss."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from sparring.attacks import EmbeddingPGD
from sparring.attacks.strongest import UNDEFINED, Strongest, cross_entropy
from tests import tiny
from tests.attacks.linear import answered, mean
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


def test_the_loss_is_the_cross_entropy():
    logits = (5 * torch.randn(20, 4, dtype=torch.float64)).requires_grad_()
    labels = torch.randint(4, (20,))
    ours, theirs = cross_entropy(logits, labels), F.cross_entropy(logits, labels, reduction="none")
    assert_close(ours, theirs)
    for mine, other in zip(*(torch.autograd.grad(x.sum(), logits) for x in (ours, theirs)), strict=True):
        assert_close(mine, other)


def test_the_loss_of_a_very_sure_model_still_tells_more_sure_from_less():
    logits = torch.tensor([[0.0, 20.0], [0.0, 25.0], [0.0, 80.0]])
    labels = torch.tensor([1, 1, 1])
    assert F.cross_entropy(logits, labels, reduction="none").max() == 0
    loss = cross_entropy(logits, labels)
    assert_close(loss, (-logits[:, 1]).exp(), tolerance=1e-12)
    assert loss[0] > loss[1] > loss[2] > 0


def test_logits_that_are_not_finite_are_wrong():
    model = mean()
    batch = answered(model, tiny.batch())

    def overflowing(model, batch):
        logits = model(**batch)["logits"]
        moved = torch.is_grad_enabled()
        return None, torch.where(torch.tensor(moved), logits + float("inf"), logits)

    found = EmbeddingPGD(0.1, forward=overflowing)(model, batch)
    assert (found.attacked == UNDEFINED).all()
    assert not found.survived.any()
