"""The game gives a batch's loss as a function of the perturbation, and both gradients."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from sparring import L2, InputError, Output, Weight
from sparring.ascent import ascend, gradient
from sparring.game import Game, Outputs, outputs_of
from tests import tiny
from tests.reference.training import play
from tests.tiny import assert_close


def noise_for(game: Game) -> torch.Tensor:
    return torch.randn(game.support().shape, dtype=torch.float64) * game.support()


# -- the loss ------------------------------------------------------------------------------------------------


def test_the_loss_is_the_models_at_the_perturbed_embeddings():
    model, batch = tiny.bert(dropout=0.0), tiny.batch()

    def check(game):
        delta = noise_for(game)
        words = model.get_input_embeddings()(batch["input_ids"])
        rest = {"attention_mask": batch["attention_mask"], "labels": batch["labels"]}
        assert_close(game.loss(delta), model(inputs_embeds=words + delta, **rest).loss)
        assert_close(game.loss(), model(**batch).loss)

    play(check, model, batch)


def test_a_perturbation_is_given_in_units():
    losses = []
    play(lambda game: losses.append(game.loss(game.support())), unit=1.0)
    play(lambda game: losses.append(game.loss(game.support() / 2)), unit=2.0)
    assert_close(losses[0], losses[1])


@pytest.mark.parametrize(
    ("returned", "loss", "logits"),
    [
        (torch.tensor(1.0), 1.0, None),
        ((torch.tensor(1.0),), 1.0, None),
        ((torch.tensor(1.0), torch.tensor(2.0), "more"), 1.0, 2.0),
        ((None, torch.tensor(2.0)), None, 2.0),
        ({"loss": torch.tensor(1.0), "logits": torch.tensor(2.0), "more": 3}, 1.0, 2.0),
        ({"logits": torch.tensor(2.0)}, None, 2.0),
    ],
)
def test_a_forward_may_return_what_models_return(returned, loss, logits):
    assert outputs_of(returned) == Outputs(loss, logits, returned)


@pytest.mark.parametrize("returned", ["loss", None, (), [1.0]])
def test_anything_else_is_an_error_that_says_what_to_return(returned):
    with pytest.raises(
        InputError, match=r"the forward returned \w+: return a loss, a tuple \(loss, logits\)"
    ):
        outputs_of(returned)


def test_a_model_without_a_loss_is_an_error_that_says_what_to_pass():
    batch = tiny.batch()
    del batch["labels"]
    with pytest.raises(
        InputError, match="Bag returned no loss: put labels into the batch, or pass forward=lam"
    ):
        play(lambda game: game.loss(), batch=batch)


def test_a_loss_per_example_is_an_error():
    def forward(model, batch):
        logits = model(**batch)["logits"]
        return nn.functional.cross_entropy(logits, batch["labels"], reduction="none"), logits

    with pytest.raises(InputError, match=r"Bag returned a loss of shape \[4\], not a scalar"):
        play(lambda game: game.loss(), forward=forward)


@pytest.mark.parametrize(
    ("options", "factor"),
    [({}, 1.0), ({"weight": 0.25}, 0.25), ({"weight": 0.25, "loss_weight": 0.5}, 0.5)],
)
def test_the_loss_is_weighted_as_the_loop_weighs_it(options, factor):
    model, batch = tiny.bag(dropout=0.0), tiny.batch()
    plain = model(**batch)["loss"]

    def check(game):
        assert_close(game.loss(), factor * plain)
        assert_close(game.loss(game.zeros()), factor * plain)
        assert game.weight == options.get("weight", 1.0)

    play(check, model, batch, **options)


def test_the_batch_may_be_replaced():
    """For perturbations of text."""
    other = tiny.batch(seed=1)
    model = tiny.bag(dropout=0.0)

    def check(game):
        game.batch = other
        assert_close(game.loss(), model(**other)["loss"])

    play(check, model)


# -- gradients -----------------------------------------------------------------------------------------------


def test_one_backward_gives_the_parameters_gradient_and_the_perturbations():
    model, batch = tiny.bert(dropout=0.0), tiny.batch()

    def check(game):
        delta = noise_for(game).requires_grad_()
        names, parameters = zip(*model.named_parameters(), strict=True)
        wanted, *grads = torch.autograd.grad(game.loss(delta), [delta, *parameters])
        found = game.backward_and_grad(game.loss(delta), delta)
        assert_close(found, wanted)
        assert_close(tiny.gradients(model), dict(zip(names, grads, strict=True)))
        assert delta.grad is None

    play(check, model, batch)


def test_backwards_accumulate():
    model = tiny.bag(dropout=0.0)

    def twice(game):
        game.backward(game.loss())
        game.backward(game.loss())

    play(lambda game: game.backward(game.loss()), model)
    once = tiny.gradients(model)
    model.zero_grad()
    play(twice, model)
    assert_close(tiny.gradients(model), {name: 2 * grad for name, grad in once.items()})


def test_a_loops_own_backward_is_used():
    losses = []
    play(lambda game: game.backward(game.loss()), backward=losses.append)
    assert len(losses) == 1


def test_the_ascents_gradient_leaves_the_parameters_alone():
    model = tiny.bert(dropout=0.0)

    def check(game):
        delta = noise_for(game)
        leaf = delta.clone().requires_grad_()
        (wanted,) = torch.autograd.grad(game.loss(leaf), leaf)
        assert_close(gradient(game, game.loss, delta), wanted)

    play(check, model)
    assert all(parameter.grad is None for parameter in model.parameters())


def test_an_ascent_takes_its_steps_and_ends_in_the_ball():
    ball = L2(0.5)

    def check(game):
        delta = wanted = game.zeros()
        for _ in range(3):
            wanted = ball.ascend(wanted, gradient(game, game.loss, wanted), 0.3)
        found = ascend(game, game.loss, delta, ball, steps=3, step_size=0.3)
        assert_close(found, wanted)
        assert_close(ball.norm(found), torch.full((4, 1, 1), 0.5, dtype=torch.float64))
        assert torch.equal(ascend(game, game.loss, delta, ball, steps=0, step_size=0.3), delta)

    play(check)


def test_an_objective_that_forgets_the_perturbation_is_an_error():
    with pytest.raises(
        InputError, match="the objective doesn't depend on the perturbation: detached, or under"
    ):
        play(lambda game: gradient(game, lambda delta: game.loss(delta).detach(), game.zeros()))


def test_an_objective_that_uses_another_perturbation_is_an_error():
    with pytest.raises(InputError, match="no gradient reaches words: is its output detached"):
        play(lambda game: gradient(game, lambda _: game.loss(game.zeros()), game.zeros()))


# -- shapes --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("site", "shape"),
    [(None, (4, 7, 32)), (Output("bert.pooler"), (4, 32)), (Weight("classifier.weight"), (1, 3, 32))],
)
def test_zeros_and_support_are_shaped_like_a_perturbation(site, shape):
    def check(game):
        assert game.zeros().shape == game.support().shape == shape
        assert not game.zeros().any()
        game.loss(game.zeros())

    play(check, tiny.bert(), site=site)


def test_no_hook_is_left_when_a_forward_raises():
    model = tiny.bag()

    def check(game):
        def breaks(model, batch):
            model(**batch)
            raise RuntimeError("out of memory")

        game.forward = breaks
        with pytest.raises(RuntimeError, match="out of memory"):
            game.loss(game.zeros())
        assert not model.words._forward_hooks

    play(check, model)
