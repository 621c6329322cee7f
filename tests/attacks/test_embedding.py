"""The attack finds what can be found, for each example alone, and leaves no trace."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
import torch.nn.functional as F

from sparring import L1, L2, InputError, Linf, Output
from sparring.attacks import EmbeddingPGD
from sparring.attacks.strongest import UNDEFINED, cross_entropy
from tests import tiny
from tests.attacks.linear import Mean, answered, mean, part
from tests.tiny import assert_close

RADII = [0.0, 0.02, 0.05, 0.1, 0.2, 0.4, 0.8]
BALLS = [L2(), L2(over="token"), Linf(), L1(), L1(over="token")]
WRONG = 5


@pytest.fixture
def texts():
    """A BERT and a padded batch that it answers rightly, but for one example."""
    model = tiny.bert()
    batch = answered(model, tiny.batch(lengths=(7, 5, 6, 2, 4, 7)))
    batch["labels"][WRONG] = (batch["labels"][WRONG] + 1) % 3
    return model, batch


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


def assert_same(one, other, *, rows=slice(None)):
    for name in ("clean", "attacked", "clean_loss", "loss", "norm"):
        assert_close(getattr(one, name), getattr(other, name)[rows], tolerance=1e-9)


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


# -- sweeps --------------------------------------------------------------------------------------------------


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


# -- no trace ------------------------------------------------------------------------------------------------


def state_of(model) -> dict:
    return {
        "parameters": {
            name: (p.detach().clone(), p.grad, p.requires_grad) for name, p in model.named_parameters()
        },
        "modes": [module.training for module in model.modules()],
        "hooks": [len(module._forward_hooks) for module in model.modules()],
        "stream": torch.get_rng_state(),
    }


def assert_unchanged(model, before: dict):
    now = state_of(model)
    assert now["modes"] == before["modes"]
    assert now["hooks"] == before["hooks"]
    assert torch.equal(now["stream"], before["stream"])
    for name, (weight, grad, wanted) in before["parameters"].items():
        assert torch.equal(now["parameters"][name][0], weight)
        assert now["parameters"][name][1] is grad
        assert now["parameters"][name][2] == wanted


@pytest.mark.parametrize("with_grad", [False, True])
def test_the_model_and_the_random_stream_stay_as_they_were(texts, with_grad):
    model, batch = texts
    model.bert.encoder.layer[0].eval()
    model.bert.encoder.layer[1].requires_grad_(requires_grad=False)
    if with_grad:
        model(**batch).loss.backward()
    before = state_of(model)
    copies = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    attack = EmbeddingPGD(restarts=2)
    attack.sweep(model, batch, RADII)
    attack.noise(model, batch, 0.1)
    assert_unchanged(model, before)
    assert bool(copies) == with_grad
    assert all(torch.equal(copies[name], before["parameters"][name][1]) for name in copies)


def test_a_model_that_draws_in_evaluation_mode_leaves_the_random_stream_too():
    def drawing(model, batch):
        return None, model(**batch)["logits"] + 1e-9 * torch.rand(())

    model = mean()
    batch = answered(model, tiny.batch())
    before = torch.get_rng_state()
    attack = EmbeddingPGD(0.1, forward=drawing)
    for run in (attack, lambda *of: attack.noise(*of, 0.1)):
        run(model, batch)
        assert torch.equal(torch.get_rng_state(), before)


def test_nothing_stays_behind_after_an_error(texts):
    model, batch = texts
    attack = EmbeddingPGD()
    attack.unit_of(model, batch)
    before = state_of(model)

    class StopError(Exception):
        pass

    def stop(_module, _args, output):
        if torch.is_grad_enabled():
            raise StopError

    handle = model.bert.encoder.register_forward_hook(stop)
    with pytest.raises(StopError):
        attack(model, batch)
    handle.remove()
    assert_unchanged(model, before)


def test_a_loop_under_no_grad_may_attack(texts):
    expected = EmbeddingPGD(0.1)(*texts)
    with torch.no_grad():
        assert_same(EmbeddingPGD(0.1)(*texts), expected)


def test_dropout_is_off(texts):
    model, batch = texts
    expected = EmbeddingPGD(0.1)(model, batch)
    assert_same(EmbeddingPGD(0.1)(model.eval(), batch), expected)


# -- losses --------------------------------------------------------------------------------------------------


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


# -- errors --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": None}, "needs the class of each example"),
        ({"labels": torch.rand(4)}, "needs the class of each example"),
        ({"labels": torch.tensor([0, 1, 2, 0])}, "labels go from 0 to 2, but .* for 2 classes"),
        ({"labels": torch.tensor([0, 1, -100, 0])}, "labels go from -100"),
        ({"labels": torch.tensor([0, 1, 1])}, r"logits of shape \[4, 2\] for 3 texts"),
    ],
)
def test_a_batch_that_does_not_fit_is_an_error(change, message):
    batch = {name: value for name, value in {**tiny.batch(labels=2), **change}.items() if value is not None}
    with pytest.raises(InputError, match=message):
        EmbeddingPGD(0.1)(mean(), batch)


def test_a_model_without_logits_is_an_error():
    with pytest.raises(InputError, match="no logits for 4 texts"):
        EmbeddingPGD(0.1, forward=lambda model, batch: model(**batch)["logits"].sum())(
            mean(), tiny.batch(labels=2)
        )


def test_a_model_that_is_detached_is_an_error():
    def detached(model, batch):
        return None, model(**batch)["logits"].detach()

    model = mean()
    with pytest.raises(InputError, match="doesn't depend on the perturbation"):
        EmbeddingPGD(0.1, forward=detached)(model, answered(model, tiny.batch()))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"radius": -1}, "radius is -1"),
        ({"steps": 0}, "steps is 0"),
        ({"step_size": 0}, "step_size is 0"),
        ({"restarts": 0}, "restarts is 0"),
        ({"unit": 0}, "unit is 0"),
        ({"ball": L2(0.3)}, "radius=0.3"),
    ],
)
def test_impossible_settings_are_errors(arguments, message):
    with pytest.raises(InputError, match=message):
        EmbeddingPGD(**arguments)


def test_a_negative_radius_in_a_sweep_is_an_error(texts):
    with pytest.raises(InputError, match=r"radius is -0.1"):
        EmbeddingPGD().sweep(*texts, [0.1, -0.1])


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
