"""An evaluation says when its numbers can't be trusted."""

from __future__ import annotations

import pytest
from torch import nn

from sparring import L2
from sparring.attacks import EmbeddingPGD
from sparring.evaluation import evaluate
from tests import tiny
from tests.attacks.linear import answered
from tests.evaluation.models import LENGTHS, Crowd, Masked, Overflowing, Random, Rounding, setting

ATTACK = {"steps": 5, "unit": 1.0}


def test_masked_gradients_are_suspected_and_noise_is_stronger():
    model, batch = setting(Masked, wrong=0)
    evaluation = evaluate(model, [batch], attack=EmbeddingPGD(**ATTACK), radii=[0.1, 50.0])
    assert [point.accuracy for point in evaluation.under_attack] == [1, 1, 1]
    masked, noise = evaluation.warnings
    assert "at radius 0.1, 50 the attack didn't raise the loss of up to 100%" in masked
    assert "at radius 50 random noise of the same size does more harm than the attack" in noise


def test_a_loss_that_rises_by_rounding_alone_has_not_been_raised():
    model, batch = setting(Rounding, wrong=0)
    (found,) = EmbeddingPGD(**ATTACK).sweep(model, batch, [0.1])
    assert (found.loss > found.clean_loss).all()
    evaluation = evaluate(model, [batch], attack=EmbeddingPGD(**ATTACK), radii=[0.1])
    assert evaluation.under_attack[1].unmoved == 1
    assert any("gradients may be masked" in warning for warning in evaluation.warnings)


def test_random_answers_are_suspected():
    model, batch = setting(Random)
    evaluation = evaluate(model, [batch], radii=[])
    assert any("answers the same batch differently twice" in warning for warning in evaluation.warnings)


def test_answers_that_depend_on_the_batch_are_suspected():
    model, batch = setting(Crowd, wrong=9)
    evaluation = evaluate(model, [batch], attack=EmbeddingPGD(**ATTACK), radii=[])
    assert any("under a perturbation of 0" in warning for warning in evaluation.warnings)


def test_a_model_of_one_class_is_suspected():
    model, batch = setting()
    nn.init.constant_(model.head.bias[1:], 100.0)
    evaluation = evaluate(model, [batch], attack=EmbeddingPGD(**ATTACK), radii=[0.1])
    (warning,) = evaluation.warnings
    assert "at radius 0, 0.1 the model predicts one class (1)" in warning
    assert evaluation.under_attack[1].accuracy == evaluation.label_shares[1]


def test_logits_that_are_not_finite_are_told():
    model, batch = setting(Overflowing, wrong=0)
    logits = EmbeddingPGD(unit=1.0)(model, batch).logits
    model.least = logits.diff(dim=1).abs().min().item()
    evaluation = evaluate(model, [batch], attack=EmbeddingPGD(**ATTACK), radii=[0.1])
    assert evaluation.under_attack[1].undefined > 0
    assert any("aren't finite" in warning for warning in evaluation.warnings)
    nulls = [row["under_attack"]["0.1"] for row in evaluation.rows].count(None)
    assert nulls == round(10 * evaluation.under_attack[1].undefined)


@pytest.mark.parametrize("ball", [L2(), L2(over="token")], ids=str)
def test_an_honest_transformer_raises_no_doubt(ball):
    model = tiny.bert(labels=2)
    batch = answered(model, tiny.batch(labels=2, lengths=LENGTHS))
    evaluation = evaluate(model, [batch], attack=EmbeddingPGD(ball=ball), radii=[0.001, 0.05, 0.2])
    assert evaluation.warnings == ()
    assert evaluation.under_attack[-1].accuracy < evaluation.accuracy
