"""An attack leaves no trace in the model, works in any loop, and says what it can't attack."""

from __future__ import annotations

import pytest
import torch

from sparring import L2, InputError
from sparring.attacks import EmbeddingPGD
from tests import tiny
from tests.attacks.linear import answered, assert_same, mean

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
    attack.sweep(model, batch, [0.0, 0.05, 0.2])
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
