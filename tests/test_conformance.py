"""Every method, at every kind of site, in every kind of model, keeps the contract and its own promises.

The models are crossed with the sites; the methods go round, so that each meets several of both.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch

from sparring import (
    FGM,
    FGSM,
    L1,
    L2,
    PGD,
    Delayed,
    Embeddings,
    Every,
    FreeLB,
    Linf,
    Method,
    Output,
    Plain,
    Site,
    Weight,
)
from sparring.testing import CHECKS, check_method
from tests.conformance_models import MODELS, Subject

# Each takes a factor on all its sizes, and what is common to all methods; sizes are such that radii bind.
METHODS: dict[str, Callable[..., Method]] = {
    "fgm": lambda size, **common: FGM(epsilon=0.2 * size, **common),
    "plain": lambda _size, **common: Plain(**common),
    "fgm, mean, L1, tokens": lambda size, **common: FGM(
        epsilon=0.2 * size, mean=True, ball=L1(over="token"), **common
    ),
    "fgsm, fresh dropout": lambda size, **common: FGSM(epsilon=0.02 * size, dropout="fresh", **common),
    "pgd": lambda size, **common: PGD(step_size=0.1 * size, ball=L2(0.15 * size), **common),
    "pgd, random start, Linf": lambda size, **common: PGD(
        step_size=0.02 * size, start=0.02 * size, ball=Linf(0.03 * size), **common
    ),
    "pgd, clean weight, tokens": lambda size, **common: PGD(
        steps=2, step_size=0.1 * size, ball=L2(0.15 * size, over="token"), clean_weight=0.5, **common
    ),
    "pgd, random start, clean weight, L1": lambda size, **common: PGD(
        steps=2, step_size=0.2 * size, start=0.1 * size, ball=L1(0.3 * size), clean_weight=1, **common
    ),
    "freelb": lambda size, **common: FreeLB(
        start=0.1 * size, step_size=0.1 * size, ball=L2(0.15 * size), **common
    ),
    "freelb, clean weight, scaled Linf": lambda size, **common: FreeLB(
        steps=2,
        start=0.02 * size,
        step_size=0.02 * size,
        ball=Linf(0.03 * size, step="scaled"),
        clean_weight=1,
        **common,
    ),
    "freelb, no start, fresh dropout, L1 tokens": lambda size, **common: FreeLB(
        start=0.0, step_size=0.1 * size, ball=L1(0.15 * size, over="token"), dropout="fresh", **common
    ),
    "every second": lambda size, **common: Every(FreeLB(start=0.1 * size, step_size=0.1 * size, **common), 2),
    "delayed": lambda size, **common: Delayed(PGD(step_size=0.1 * size, ball=L2(0.15 * size), **common), 1),
}
WARM_UP = {"every second": 2, "delayed": 1}


def sites(subject: Subject) -> dict[str, Site]:
    inside = {
        "layer": Output(subject.layer),
        "row": Output(subject.row),
        "weight": Weight(subject.weight),
    }
    return {
        "embeddings": Embeddings(),
        "matrix": Weight(),
        **{name: site for name, site in inside.items() if getattr(subject, name)},
    }


PLACES = [(model, site) for model, made in MODELS.items() for site in sites(made())]
# The steps through the methods are such that no method meets a site or a model twice.
GRID = [
    (model, site, list(METHODS)[(8 * number + 5 * list(MODELS).index(model)) % len(METHODS)])
    for number, (model, site) in enumerate(PLACES)
]

# Where a model leaves a check with nothing to say: written down, so that none goes quiet unseen.
CHECKPOINTING = {"checkpointing_changes_no_gradient", "re_entrant_checkpointing_changes_no_gradient"}
ON_THE_LEFT = {"an_example_has_the_same_perturbation_under_padding_on_the_left"}
PER_EXAMPLE = {
    "an_example_has_the_same_perturbation_in_any_batch",
    "an_example_has_the_same_perturbation_under_padding_on_the_right",
    "an_example_has_the_same_perturbation_under_padding_on_the_left",
    "micro_batches_give_the_gradient_of_the_batch",
}
NOT_IN_MODEL = {
    "BERT": ON_THE_LEFT,  # positions are counted from the left, padding included
    "DistilBERT": ON_THE_LEFT,
    "ALBERT": ON_THE_LEFT | CHECKPOINTING,
    "T5 classifier": ON_THE_LEFT | {"a_fully_padded_row_is_harmless"},  # it wants an end-of-text token
    "LSTM": CHECKPOINTING,
    "the suite's own": ON_THE_LEFT | CHECKPOINTING,
}


def not_checked(model: str, method: Method) -> set[str]:
    missing = set(NOT_IN_MODEL.get(model, set()))
    if method.properties.random_start:
        missing.add("random_starts_are_declared")
    if not method.properties.plain_at_zero:
        missing.add("sizes_zero_give_the_plain_gradient")
    return missing if method.properties.per_example else missing | PER_EXAMPLE


@pytest.mark.parametrize(("model", "site", "method"), GRID)
def test_the_method_keeps_the_contract(model: str, site: str, method: str) -> None:
    subject = MODELS[model]()
    make = partial(METHODS[method], site=sites(subject)[site])
    outcome = check_method(
        lambda: make(1.0),
        subject.model,
        subject.batch,
        at_zero=lambda: make(0.0),
        items=subject.items,
        pad_id=subject.pad_id,
        warm_up=WARM_UP.get(method, 0),
        tolerance=subject.tolerance,
    )
    assert list(outcome) == [check.__name__ for check in CHECKS]
    assert {name for name, reason in outcome.items() if reason} == not_checked(model, make(1.0))


@pytest.mark.parametrize("method", METHODS)
def test_in_the_grid_each_method_meets_several_sites_and_models(method: str) -> None:
    met = [(model, site) for model, site, name in GRID if name == method]
    assert len({model for model, _ in met}) == len({site for _, site in met}) == len(met) >= 2


@pytest.mark.parametrize("method", METHODS)
def test_the_method_keeps_the_contract_on_the_classifier_that_comes_with_the_suite(method: str) -> None:
    make = METHODS[method]
    outcome = check_method(lambda: make(1.0), at_zero=lambda: make(0.0), warm_up=WARM_UP.get(method, 0))
    assert {name for name, reason in outcome.items() if reason} == not_checked("the suite's own", make(1.0))


@pytest.mark.parametrize("model", ["T5 classifier", "T5 sequence to sequence"])
def test_of_an_encoder_decoder_the_encoder_is_perturbed_and_the_decoder_is_not(model: str) -> None:
    subject = MODELS[model]()
    seen: list[list[torch.Tensor]] = []

    def forward(model: torch.nn.Module, batch: Any) -> Any:
        calls: list[torch.Tensor] = []
        seen.append(calls)
        stacks = [model.get_encoder(), model.get_decoder()]
        handles = [
            stack.block[0].register_forward_pre_hook(lambda _, args: calls.append(args[0]))
            for stack in stacks
        ]
        try:
            return model(**batch)
        finally:
            for handle in handles:
                handle.remove()

    method = PGD(steps=1, step_size=0.1, forward=forward)
    method(subject.model.eval(), subject.batch)
    clean, perturbed = seen[-2:]  # the ascent starts at the text itself
    real = subject.batch["attention_mask"][..., None]
    assert (clean[0] - perturbed[0]).abs().sum(-1).gt(1e-6).equal(real[..., 0] == 1)
    assert torch.equal(clean[1], perturbed[1])
