"""PGD is the plain algorithm of its papers, in each of its forms, over five optimizer steps with dropout."""

from __future__ import annotations

from functools import cache

import pytest

from sparring import L1, L2, PGD, Linf, Properties, Weight
from sparring import Passes as Cost
from tests import tiny
from tests.reference.geometries import GEOMETRIES
from tests.reference.mutations import (
    descending,
    normed_otherwise,
    one_step_less,
    other_masks,
    unmasked,
    unnormalised,
    unprojected,
    unrestored_stream,
    unsigned,
    without_clean_gradient,
)
from tests.reference.passes import Passes
from tests.reference.pgd import pgd
from tests.reference.training import (
    Training,
    assert_trains_like,
    count_passes,
    deltas_of,
    reference_training,
)
from tests.tiny import assert_close


@cache
def expected(form: str, dropout: str, clean_weight: float) -> Training:
    geometry = GEOMETRIES[form]

    def reference(model, batch, draws):
        loss = Passes(model, batch, draws.seeds() if dropout == "fresh" else None)
        noise = draws.noise(loss.size.shape) if geometry.start else None
        return pgd(loss, noise, steps=3, clean_weight=clean_weight, **geometry.theirs())

    return reference_training(reference, seed=3)


def assert_form_agrees(form: str, *, dropout: str = "same", clean_weight: float = 0.0, **changed) -> None:
    arguments = {"steps": 3, "clean_weight": clean_weight, "seed": 3, **GEOMETRIES[form].ours(), **changed}
    assert_trains_like(PGD(dropout=dropout, **arguments), expected(form, dropout, clean_weight))


@pytest.mark.parametrize("form", GEOMETRIES)
def test_pgd_is_the_papers_algorithm(form):
    assert_form_agrees(form)


@pytest.mark.parametrize("form", ["l2", "l2 from the text"])
@pytest.mark.parametrize("dropout", ["same", "fresh"])
def test_pgd_with_the_clean_loss_is_the_plain_algorithm(form, dropout):
    assert_form_agrees(form, dropout=dropout, clean_weight=0.5)


# -- each branch, and each argument, binds -------------------------------------------------------------------

L2_LIKE = [form for form in GEOMETRIES if form != "linf"]
BROKEN = [
    *[(form, mutation) for form in GEOMETRIES for mutation in (descending, one_step_less, other_masks)],
    *[(form, unmasked) for form in ("l2", "l2 unbounded")],  # N; elsewhere BERT's padding doesn't matter
    *[(form, unprojected) for form in GEOMETRIES if form != "l2 unbounded"],
    *[(form, mutation) for form in L2_LIKE for mutation in (unnormalised, normed_otherwise)],
    ("linf", unsigned),
]
WRONG = [{"steps": 2}, {"step_size": 0.2}, {"start": 0.3}, {"ball": L2(0.4)}, {"seed": 4}, {"unit": 1.1}]


@pytest.mark.parametrize(("form", "mutation"), BROKEN)
def test_a_broken_pgd_is_not(form, mutation, monkeypatch):
    mutation(monkeypatch)
    with pytest.raises(AssertionError):
        assert_form_agrees(form)


@pytest.mark.parametrize("changed", WRONG)
def test_pgd_with_another_argument_is_not(changed):
    with pytest.raises(AssertionError):
        assert_form_agrees("l2", **changed)


@pytest.mark.parametrize("mutation", [other_masks, unrestored_stream])
def test_a_broken_pgd_with_fresh_masks_is_not(mutation, monkeypatch):
    mutation(monkeypatch)
    with pytest.raises(AssertionError):
        assert_form_agrees("l2", dropout="fresh", clean_weight=0.5)


def test_pgd_without_the_clean_gradient_is_not(monkeypatch):
    without_clean_gradient(monkeypatch)
    with pytest.raises(AssertionError):
        assert_form_agrees("l2 from the text", clean_weight=0.5)


@pytest.mark.parametrize("ball", [L2(0.2), L2(0.05, over="token"), Linf(0.02), L1(0.5)])
def test_no_pass_leaves_the_ball_however_large_the_sizes(ball):
    method = PGD(steps=3, step_size=1.0, start=1.0, ball=ball, unit=1.0)
    deltas = deltas_of(method, tiny.bert(), tiny.batch())
    assert len(deltas) == 4
    assert all((ball.norm(delta) < ball.radius + 1e-12).all() for delta in deltas)


# -- what it says of itself ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "cost"),
    [
        ({"start": 0.1}, Cost(full=1, ascent=3)),
        ({"start": 0.0}, Cost(full=1, ascent=3)),
        ({"start": 0.1, "clean_weight": 1.0}, Cost(full=2, ascent=3)),
        ({"start": 0.0, "clean_weight": 1.0}, Cost(full=2, ascent=2)),
        ({"start": 0.0, "clean_weight": 1.0, "steps": 1}, Cost(full=2)),
        ({"site": Weight(), "steps": 2}, Cost(full=1, ascent=2)),
    ],
)
def test_pgd_costs_its_steps_and_one_full_pass(arguments, cost):
    method = PGD(**arguments)
    assert count_passes(method, tiny.bert(), tiny.batch()) == method.passes == cost


def test_pgd_reports_its_losses_and_the_norm_of_its_perturbation():
    model, batch = tiny.bert(dropout=0.0), tiny.batch()
    method = PGD(steps=3, step_size=0.3, ball=L2(0.5), clean_weight=0.5, unit=1.0)
    loss = method(model, batch)
    figures = method.read_figures()
    assert_close(figures["adv/loss_clean"], model(**batch).loss.item())
    assert_close(0.5 * figures["adv/loss_clean"] + figures["adv/loss_adv"], loss.item())
    assert_close(figures["adv/delta_norm"], 0.5)
    assert figures["adv/loss_adv"] > figures["adv/loss_clean"]
    assert figures["adv/skipped"] == 0


def test_pgd_of_radius_0_is_plain_training():
    model, batch = tiny.bert(dropout=0.0), tiny.batch()
    model(**batch).loss.backward()
    plain = tiny.gradients(model)
    model.zero_grad()
    PGD(ball=L2(0.0), start=0.1)(model, batch)
    assert_close(tiny.gradients(model), plain)


@pytest.mark.parametrize(
    ("arguments", "properties"),
    [
        ({}, Properties()),
        ({"start": 0.1}, Properties(random_start=True)),
        ({"clean_weight": 1.0}, Properties(plain_at_zero=False)),
        ({"site": Weight()}, Properties(per_example=False)),
    ],
)
def test_pgd_declares_what_its_arguments_make_of_it(arguments, properties):
    assert PGD(**arguments).properties == properties
