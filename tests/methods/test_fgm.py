"""FGM is the plain algorithm of its paper, in each of its forms, over five optimizer steps with dropout."""

from __future__ import annotations

from functools import cache

import pytest

from sparring import FGM, FGSM, L2, Linf, Properties, Weight
from sparring import Passes as Cost
from tests import tiny
from tests.reference.fgm import fgm
from tests.reference.fgm_matrix import fgm_matrix
from tests.reference.mutations import (
    descending,
    normed_otherwise,
    other_masks,
    unnormalised,
    unprojected,
    unrestored_stream,
    unsigned,
    without_clean_gradient,
)
from tests.reference.passes import Passes
from tests.reference.training import Training, assert_trains_like, count_passes, reference_training
from tests.tiny import assert_close

# our arguments, and the reference's
FORMS = {
    "l2": ({"epsilon": 0.5}, {"epsilon": 0.5}),
    "l2 per token": ({"epsilon": 0.2, "ball": L2(over="token")}, {"epsilon": 0.2, "over": "token"}),
    "l2 bounded": ({"epsilon": 0.5, "ball": L2(0.3)}, {"epsilon": 0.5, "radius": 0.3}),
    "linf": ({"epsilon": 0.05, "ball": Linf()}, {"epsilon": 0.05, "norm": "linf"}),
    "linf scaled": (
        {"epsilon": 0.3, "ball": Linf(step="scaled")},
        {"epsilon": 0.3, "norm": "linf", "step": "scaled"},
    ),
    "linf scaled per token": (
        {"epsilon": 0.1, "ball": Linf(step="scaled", over="token")},
        {"epsilon": 0.1, "norm": "linf", "step": "scaled", "over": "token"},
    ),
    "weighted": ({"epsilon": 0.5, "weight": 0.3}, {"epsilon": 0.5, "weight": 0.3}),
    "mean": ({"epsilon": 0.5, "weight": 0.3, "mean": True}, {"epsilon": 0.5, "weight": 0.3, "mean": True}),
}


@cache
def expected(form: str, dropout: str) -> Training:
    def reference(model, batch, draws):
        loss = Passes(model, batch, draws.seeds() if dropout == "fresh" else None)
        return fgm(loss, **FORMS[form][1])

    return reference_training(reference, seed=3)


def assert_form_agrees(form: str, *, dropout: str = "same", **changed) -> None:
    arguments = {**FORMS[form][0], **changed}
    wanted = expected(form, dropout)
    assert_trains_like(FGM(**arguments, unit=1.0, dropout=dropout, seed=3), wanted)


@pytest.mark.parametrize("form", FORMS)
def test_fgm_is_the_papers_algorithm(form):
    assert_form_agrees(form)


def test_fgm_with_fresh_dropout_masks_is_the_papers_algorithm():
    assert_form_agrees("l2", dropout="fresh")


def test_fgsm_is_fgm_in_the_linf_ball():
    def reference(model, batch, _draws):
        return fgm(Passes(model, batch), epsilon=0.05, norm="linf", weight=0.3, mean=True)

    method = FGSM(epsilon=0.05, weight=0.3, mean=True, unit=1.0)
    assert_trains_like(method, reference_training(reference))


def test_fgsm_passes_its_ball_on():
    assert FGSM(ball=Linf(0.3)).ball == Linf(0.3)


def assert_matrix_agrees() -> None:
    def reference(model, batch, _draws):
        return fgm_matrix(model, batch, epsilon=2.0)

    wanted = reference_training(reference)
    assert_trains_like(FGM(epsilon=2.0, unit=1.0, site=Weight()), wanted)


def test_fgm_on_the_matrix_is_the_idiom_of_copied_code():
    assert_matrix_agrees()


def test_sizes_are_in_units_of_the_mean_norm_of_a_real_words_vector():
    model, batch = tiny.bert(), tiny.batch()
    words = model.get_input_embeddings()(batch["input_ids"]).detach()
    unit = words[batch["attention_mask"] == 1].norm(dim=1).mean().item()

    def reference(model, batch, _draws):
        return fgm(Passes(model, batch), epsilon=0.15 * unit)

    assert_trains_like(FGM(), reference_training(reference))


# -- each branch, and each argument, binds -------------------------------------------------------------------

BROKEN = [
    *[(form, mutation) for form in FORMS for mutation in (descending, without_clean_gradient, other_masks)],
    *[(form, mutation) for form in FORMS if form != "linf" for mutation in (unnormalised, normed_otherwise)],
    ("linf", unsigned),
    ("l2 bounded", unprojected),
]
WRONG = [
    ("l2", {"epsilon": 0.4}),
    ("l2 bounded", {"ball": L2(0.4)}),
    ("l2 per token", {"ball": L2()}),
    ("weighted", {"weight": 0.4}),
    ("mean", {"mean": False}),
]


@pytest.mark.parametrize(("form", "mutation"), BROKEN)
def test_a_broken_fgm_is_not(form, mutation, monkeypatch):
    mutation(monkeypatch)
    with pytest.raises(AssertionError):
        assert_form_agrees(form)


@pytest.mark.parametrize(("form", "arguments"), WRONG)
def test_fgm_with_another_argument_is_not(form, arguments):
    with pytest.raises(AssertionError):
        assert_form_agrees(form, **arguments)


@pytest.mark.parametrize("mutation", [other_masks, unrestored_stream])
def test_a_broken_fgm_with_fresh_masks_is_not(mutation, monkeypatch):
    mutation(monkeypatch)
    with pytest.raises(AssertionError):
        assert_form_agrees("l2", dropout="fresh")


@pytest.mark.parametrize("mutation", [descending, unnormalised, normed_otherwise, without_clean_gradient])
def test_a_broken_fgm_on_the_matrix_is_not(mutation, monkeypatch):
    mutation(monkeypatch)
    with pytest.raises(AssertionError):
        assert_matrix_agrees()


# -- what it says of itself ----------------------------------------------------------------------------------


@pytest.mark.parametrize("method", [FGM(), FGSM(), FGM(site=Weight())])
def test_fgm_costs_two_full_passes(method):
    assert count_passes(method, tiny.bert(), tiny.batch()) == method.passes == Cost(full=2)


def test_fgm_reports_both_losses_and_the_norm_of_its_step():
    model, batch = tiny.bert(dropout=0.0), tiny.batch()
    method = FGM(epsilon=0.5, weight=0.3, ball=L2(0.4), unit=1.0)
    loss = method(model, batch)
    figures = method.read_figures()
    assert_close(figures["adv/loss_clean"], model(**batch).loss.item())
    assert_close(figures["adv/loss_clean"] + 0.3 * figures["adv/loss_adv"], loss.item())
    assert_close(figures["adv/delta_norm"], 0.4)
    assert figures["adv/loss_adv"] > figures["adv/loss_clean"]
    assert figures["adv/skipped"] == 0


@pytest.mark.parametrize(("epsilon", "mean"), [(0.0, True), (0.0, False)])
def test_fgm_of_size_0_is_plain_training_times_what_it_declares(epsilon, mean):
    model, batch = tiny.bert(dropout=0.0), tiny.batch()
    model(**batch).loss.backward()
    plain = tiny.gradients(model)
    model.zero_grad()
    method = FGM(epsilon=epsilon, weight=0.5, mean=mean)
    method(model, batch)
    factor = 1.0 if mean else 1.5
    assert_close(tiny.gradients(model), {name: factor * grad for name, grad in plain.items()})
    assert method.properties == Properties(plain_at_zero=mean)


def test_fgm_on_the_matrix_declares_a_perturbation_of_the_batch():
    assert not FGM(site=Weight()).properties.per_example
