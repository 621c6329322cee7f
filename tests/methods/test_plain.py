"""Plain training is `loss.backward()`, bit for bit."""

from __future__ import annotations

import pytest

from sparring import Passes, Plain
from sparring.game import Game
from tests import tiny
from tests.reference.mutations import summed
from tests.reference.training import assert_trains_like, count_passes, training


def perturbed(patch):
    def loss(self):
        delta = self.zeros()
        delta[..., 0] = 0.1
        return self.outputs(delta).loss

    patch.setattr(Game, "loss", loss)


def backward(model, batch):
    loss = model(**batch).loss
    loss.backward()
    return loss.detach()


def test_plain_is_loss_backward_bit_for_bit():
    assert_trains_like(Plain(), list(training(backward)), tolerance=0.0)


@pytest.mark.parametrize("mutation", [summed, perturbed])
def test_a_broken_plain_is_not(mutation, monkeypatch):
    expected = list(training(backward))
    mutation(monkeypatch)
    with pytest.raises(AssertionError):
        assert_trains_like(Plain(), expected)


def test_plain_costs_one_pass():
    assert count_passes(Plain(), tiny.bert(), tiny.batch()) == Plain().passes == Passes(full=1)


def test_plain_reports_the_loss():
    method = Plain()
    loss = method(tiny.bert(), tiny.batch())
    assert method.read_figures() == {"adv/loss_clean": pytest.approx(loss.item()), "adv/skipped": 0.0}
