"""Padding is never perturbed, and a gradient that isn't finite never taken."""

from __future__ import annotations

import pytest
import torch

from sparring import FGM, L2, PGD, FreeLB, Weight
from tests import tiny
from tests.reference.training import deltas_of, play


@pytest.mark.parametrize(
    "method",
    [
        FGM(epsilon=0.5),
        PGD(steps=2, step_size=0.3, start=0.1),
        FreeLB(steps=3, step_size=0.3, clean_weight=1.0),
        FGM(epsilon=0.5, ball=L2(over="token")),
    ],
)
def test_padding_is_never_perturbed_also_where_a_model_lets_it_leak(method):
    model, batch = tiny.bag(), tiny.batch()
    deltas = deltas_of(method, model, batch)
    padding = batch["attention_mask"] == 0
    assert all((delta[padding] == 0).all() for delta in deltas)
    assert (deltas[-1][~padding] != 0).all()


@pytest.mark.parametrize("method", [FGM(), PGD(start=0.1), FreeLB(), FGM(ball=L2(over="token"))])
def test_a_fully_padded_row_has_no_perturbation_and_spoils_nothing(method):
    """A start divided by sqrt(0) would be infinite."""
    model, batch = tiny.bert(), tiny.batch()
    batch["attention_mask"][1] = 0
    deltas = deltas_of(method, model, batch)
    assert (deltas[-1][1] == 0).all()
    assert (deltas[-1][[0, 2, 3], 0] != 0).all()
    assert all(grad.isfinite().all() for grad in tiny.gradients(model).values())
    assert method.read_figures()["adv/skipped"] == 0


def poisoned(value: float, row: int):
    """A forward whose gradient at the embeddings isn't finite for one example; its loss is."""

    def forward(model, batch):
        def poison(grad):
            grad = grad.clone()
            grad[row, 0, 0] = value
            return grad

        def hook(_module, _args, output):
            if output.requires_grad:
                output.register_hook(poison)

        handle = model.words.register_forward_hook(hook)
        with handle:
            return model(**batch)

    return forward


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize(
    ("kind", "arguments", "steps"),
    [(FGM, {}, 1), (PGD, {"steps": 2}, 2), (FreeLB, {"steps": 3, "start": 0.0}, 3)],
)
def test_a_gradient_that_isnt_finite_skips_its_examples_step_and_is_counted(kind, arguments, steps, value):
    """zhuchen03/FreeLB#19: NaN from the first step."""
    method = kind(**arguments, forward=poisoned(value, row=2))
    deltas = deltas_of(method, tiny.bag(), tiny.batch())
    assert (deltas[-1][2] == 0).all()
    assert (deltas[-1][[0, 1, 3], 0] != 0).all()
    assert all(delta.isfinite().all() for delta in deltas)
    assert method.skipped == steps
    assert method.read_figures()["adv/skipped"] == steps


def test_a_matrix_whose_gradient_isnt_finite_doesnt_move():
    def check(game):
        grad = torch.ones_like(game.zeros())
        grad[0, 3, 1] = float("nan")
        assert not game.finite(grad).any()
        assert game.skipped == 1

    play(check, site=Weight())


def test_what_isnt_finite_on_padding_alone_is_no_reason_to_skip():
    def check(game):
        grad = torch.ones_like(game.zeros())
        grad[1, -1] = float("nan")  # its text has four tokens
        assert torch.equal(game.finite(grad), game.support())
        assert game.skipped == 0

    play(check)
