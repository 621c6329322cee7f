"""A sweep is monotone and pays for what it does; a radius means the same in every model."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch

from sparring import Linf, Output
from sparring.attacks import EmbeddingPGD
from tests import tiny
from tests.attacks.linear import assert_same, part
from tests.tiny import assert_close

RADII = [0.0, 0.02, 0.05, 0.1, 0.2, 0.4, 0.8]


@pytest.mark.parametrize("restarts", [1, 2])
def test_a_sweep_is_monotone(texts, restarts):
    swept = EmbeddingPGD(steps=3, restarts=restarts).sweep(*texts, RADII[::-1])
    assert [found.radius for found in swept] == RADII
    for small, large in pairwise(swept):
        assert (large.survived <= small.survived).all()
        assert (large.loss >= small.loss).all()
        assert torch.equal(large.attacked[~small.survived], small.attacked[~small.survived])
    survivors = [int(found.survived.sum()) for found in swept]
    assert len(set(survivors)) > 2, "the radii break some examples here and some there"


def test_radius_0_is_the_clean_model(texts):
    (found,) = EmbeddingPGD().sweep(*texts, [0.0])
    assert torch.equal(found.attacked, found.clean)
    assert_close(found.loss, found.clean_loss)
    assert found.passes.ascent == 0


def test_the_first_radius_of_a_sweep_is_attacked_as_alone(texts):
    swept = EmbeddingPGD().sweep(*texts, [0.1, 0.3])
    assert_same(swept[0], EmbeddingPGD(0.1)(*texts))


def counted(model):
    """The examples that pass through the model from here on, with and without a gradient."""
    seen = {True: 0, False: 0}

    def count(_module, _args, kwargs):
        seen[torch.is_grad_enabled()] += len(kwargs["input_ids"])

    model.register_forward_pre_hook(count, with_kwargs=True)
    return seen


def test_passes_are_those_reported_and_broken_examples_take_none(texts):
    model, batch = texts
    attack = EmbeddingPGD(steps=3, restarts=2)
    attack.unit_of(model, batch)  # the probe's passes are no part of the attack
    seen = counted(model)
    swept = attack.sweep(model, batch, RADII)
    assert seen[True] == sum(found.passes.ascent for found in swept)
    assert seen[False] == sum(found.passes.forward for found in swept)
    assert (swept[0].passes.forward, swept[0].passes.ascent) == (6 + 5, 0)  # the clean pass, and radius 0
    for before, found in pairwise(swept):
        standing = int(before.survived.sum())
        assert found.passes.ascent <= 2 * 3 * standing
        assert found.passes.forward <= 2 * standing
        if found.survived.equal(before.survived):
            assert found.passes.ascent == 2 * 3 * standing
    assert swept[-1].passes.ascent < 2 * 3 * 5


# -- units, sites, noise -------------------------------------------------------------------------------------


def test_the_unit_is_the_mean_norm_of_a_word_and_scales_everything(texts):
    model, batch = texts
    words = model.get_input_embeddings()(batch["input_ids"])[batch["attention_mask"] == 1]
    unit = words.norm(dim=-1).mean().item()
    assert_close(EmbeddingPGD().unit_of(model, batch), unit)
    absolute = EmbeddingPGD(0.1 * unit, unit=1.0)(model, batch)
    relative = EmbeddingPGD(0.1)(model, batch)
    assert_close(relative.loss, absolute.loss, tolerance=1e-9)
    assert_close(relative.norm * unit, absolute.norm, tolerance=1e-9)


def test_the_unit_is_measured_once_per_model(texts):
    model, batch = texts
    attack = EmbeddingPGD()
    unit = attack.unit_of(model, batch)
    assert attack.unit_of(model, part(batch, [3])) == unit
    assert EmbeddingPGD().unit_of(model, part(batch, [3])) != unit
    assert attack.unit_of(tiny.bert(seed=1), batch) != unit


def test_another_site_can_be_attacked(texts):
    for site in (Output("bert.encoder.layer.0"), Output("bert.pooler")):
        found = EmbeddingPGD(0.3, site=site, restarts=2)(*texts)
        assert (found.loss > found.clean_loss)[found.clean == found.labels].all()


def test_noise_has_the_norm_asked_for_and_spares_padding(texts):
    model, batch = texts
    attack = EmbeddingPGD(unit=1.0)
    attack.unit_of(model, batch)
    seen = []
    model.bert.embeddings.LayerNorm.register_forward_pre_hook(lambda _module, args: seen.append(args[0]))
    attack.noise(model, batch, 0.0)
    attack.noise(model, batch, 0.3)
    noise = seen[1] - seen[0]
    assert_close(noise.flatten(1).norm(dim=1), torch.full((6,), 0.3, dtype=torch.float64))
    assert noise[batch["attention_mask"] == 0].abs().max() == 0
    assert noise[batch["attention_mask"] == 1].abs().min() > 0


def test_the_description_names_what_decides_the_numbers():
    text = EmbeddingPGD(steps=7, restarts=2, ball=Linf(over="token"), seed=5).describe()
    for word in (
        "word embeddings",
        "Linf",
        "token",
        "7 steps",
        "2.5 * radius / steps",
        "2 restarts",
        "seed 5",
    ):
        assert word in text
    assert "Output(" in EmbeddingPGD(site=Output("bert.pooler")).describe()
