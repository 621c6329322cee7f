"""The attack finds what can be found, for each example alone."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from sparring import L1, L2, Linf
from sparring.attacks import EmbeddingPGD
from tests import tiny
from tests.attacks.linear import WRONG, Mean, answered, assert_same, mean, part
from tests.tiny import assert_close

BALLS = [L2(), L2(over="token"), Linf(), L1(), L1(over="token")]


# -- strength ------------------------------------------------------------------------------------------------


def exact_radius(model: Mean, batch: dict, ball) -> torch.Tensor:
    """The distance of each text to the other class; every word moves the mean by its share."""
    weight = model.head.weight.detach()
    margin = model(**batch)["logits"].detach().diff(dim=1)[:, 0].abs()
    slope, tokens = weight[1] - weight[0], batch["attention_mask"].sum(1)
    reach = {  # the rise of the margin per unit of radius
        ("L2", "example"): slope.norm() / tokens.sqrt(),
        ("L2", "token"): slope.norm().expand(len(tokens)),
        ("Linf", "example"): slope.abs().sum().expand(len(tokens)),
        ("L1", "example"): slope.abs().max() / tokens,
        ("L1", "token"): slope.abs().max().expand(len(tokens)),
    }
    return margin / reach[type(ball).__name__, ball.over]


@pytest.mark.parametrize("ball", BALLS, ids=str)
def test_a_linear_classifier_breaks_at_its_exact_radius(ball):
    model = mean()
    batch = answered(model, tiny.batch(lengths=(7, 4, 6, 2)))
    exact = exact_radius(model, batch, ball)
    for row, radius in enumerate(exact.tolist()):
        attack = EmbeddingPGD(radius * 0.999, ball=ball, unit=1.0, steps=20)
        assert attack(model, part(batch, [row])).survived.all()
        attack = EmbeddingPGD(radius * 1.001, ball=ball, unit=1.0, steps=20)
        found = attack(model, part(batch, [row]))
        assert not found.survived.any()
        assert 0.999 * radius < found.norm.item() <= 1.001 * radius * (1 + 1e-9)


def by_hand(model, ids, label: int, *, radius: float, steps: int) -> tuple[int, float, float]:
    """PGD on one text without padding, written down from its definition: prediction, loss, norm."""
    words = model.get_input_embeddings()(ids[None]).detach()
    delta, label = torch.zeros_like(words), torch.tensor([label])
    best = None
    for step in range(steps + 1):
        delta = delta.detach().requires_grad_()
        logits = model(inputs_embeds=words + delta).logits
        loss = F.cross_entropy(logits, label)
        if best is None or logits.argmax() != label or loss > best[1]:
            best = int(logits.argmax()), loss.item(), delta.norm().item()
        if logits.argmax() != label or step == steps:
            break
        (grad,) = torch.autograd.grad(loss, delta)
        delta = delta + 2.5 * radius / steps * grad / grad.norm()
        delta = delta * min(1.0, radius / delta.norm().item())
    return best


@pytest.mark.parametrize("radius", [0.05, 0.3, 1.0])
def test_a_batch_is_attacked_as_each_text_alone_by_hand(texts, radius):
    model, batch = texts
    found = EmbeddingPGD(radius, steps=4, unit=1.0)(model, batch)
    model.eval()
    for row, label in enumerate(batch["labels"].tolist()):
        if found.clean[row] != label:
            continue
        ids = batch["input_ids"][row][batch["attention_mask"][row] == 1]
        prediction, loss, norm = by_hand(model, ids, label, radius=radius, steps=4)
        assert found.attacked[row] == prediction
        assert_close(found.loss[row].item(), loss)
        assert_close(found.norm[row].item(), norm)


def test_the_attacks_of_that_test_are_of_all_kinds(texts):
    survived = [EmbeddingPGD(radius, steps=4, unit=1.0)(*texts).survived.sum() for radius in (0.05, 0.3, 1.0)]
    assert survived[0] > survived[1] > survived[2]


def test_more_restarts_are_never_weaker_and_find_more(texts):
    once = EmbeddingPGD(1.0, steps=1)(*texts)
    often = EmbeddingPGD(1.0, steps=1, restarts=6)(*texts)
    assert (often.survived <= once.survived).all()
    assert often.survived.sum() < once.survived.sum()
    assert (often.loss >= once.loss).all()


def test_perturbations_stay_in_the_ball(texts):
    for ball in BALLS:
        found = EmbeddingPGD(0.1, ball=ball, restarts=2)(*texts)
        assert (found.norm <= 0.1 * (1 + 1e-9)).all()
        assert (found.norm[found.clean == found.labels] > 0).all()


def test_an_example_that_is_wrong_anyway_is_not_attacked(texts):
    found = EmbeddingPGD(0.1)(*texts)
    assert found.clean[WRONG] != found.labels[WRONG]
    assert found.attacked[WRONG] == found.clean[WRONG]
    assert found.loss[WRONG] == found.clean_loss[WRONG]
    assert found.norm[WRONG] == 0
    assert not found.survived[WRONG]


def test_loss_and_logits_without_a_perturbation_are_the_models(texts):
    model, batch = texts
    found = EmbeddingPGD(0.1)(model, batch)
    with torch.no_grad():
        logits = model.eval()(**batch).logits
    assert_close(found.logits, logits)
    assert_close(found.clean_loss, F.cross_entropy(logits, batch["labels"], reduction="none"))


# -- each example alone --------------------------------------------------------------------------------------


ATTACK = {"steps": 3, "restarts": 3, "unit": 1.0}


@pytest.mark.parametrize("radius", [0.05, 0.3])
def test_an_example_is_attacked_alike_in_any_batch(texts, radius):
    model, batch = texts
    found = EmbeddingPGD(radius, **ATTACK)(model, batch)
    for rows in ([3], [5, 3, 0], [1, 2]):
        assert_same(EmbeddingPGD(radius, **ATTACK)(model, part(batch, rows)), found, rows=rows)


@pytest.mark.parametrize("radius", [0.05, 0.3])
def test_more_padding_changes_nothing(texts, radius):
    model, batch = texts
    longer = {**batch, **{name: F.pad(batch[name], (0, 5)) for name in ("input_ids", "attention_mask")}}
    assert_same(EmbeddingPGD(radius, **ATTACK)(model, longer), EmbeddingPGD(radius, **ATTACK)(model, batch))


def test_padding_on_the_left_changes_nothing():
    model = mean()
    batch = answered(model, tiny.batch(lengths=(7, 4, 6, 2)))
    left = {name: batch[name].clone() for name in batch}
    for row, tokens in enumerate(batch["attention_mask"].sum(1).tolist()):
        for name in ("input_ids", "attention_mask"):
            left[name][row] = left[name][row].roll(7 - tokens)
    assert not torch.equal(left["input_ids"], batch["input_ids"])
    # an attack that begins at random and takes no steps to speak of
    attack = {**ATTACK, "step_size": 1e-9}
    found = EmbeddingPGD(1.0, **attack)(model, batch)
    assert (found.norm > 0.9).any()
    assert_same(EmbeddingPGD(1.0, **attack)(model, left), found)


def test_the_same_seed_gives_the_same_starts_and_another_others(texts):
    first, again, other = (EmbeddingPGD(1.0, steps=1, restarts=6, seed=seed)(*texts) for seed in (0, 0, 1))
    assert torch.equal(first.loss, again.loss)
    assert not torch.equal(first.loss, other.loss)
