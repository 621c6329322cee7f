"""A method's unit, description, state and arguments."""

from __future__ import annotations

import copy
import logging
import math

import pytest
import torch
from torch import Tensor, nn

import sparring
from sparring import (
    FGM,
    FGSM,
    L2,
    PGD,
    FreeLB,
    InputError,
    Linf,
    Method,
    Passes,
    Plain,
    Weight,
)
from tests import tiny
from tests.reference.methods import EVERY
from tests.reference.training import saved_and_loaded
from tests.tiny import assert_close


def step(method: Method, model: nn.Module, seed: int = 0, **options) -> Tensor:
    """One training step."""
    optimizer = torch.optim.SGD([{"params": model.parameters()}, *method.param_groups()], lr=0.1)
    optimizer.zero_grad()
    loss = method(model, tiny.batch(seed=seed), **options)
    optimizer.step()
    return loss


# -- the unit, and the status line ---------------------------------------------------------------------------


def scaled(model: nn.Module, factor: float) -> nn.Module:
    with torch.no_grad():
        model.get_input_embeddings().weight.mul_(factor)
    return model


def test_the_unit_is_measured_on_a_models_first_batch_and_stays():
    method, model = FGM(), tiny.bert()
    assert method.unit is None
    method(model, tiny.batch())
    unit = method.unit
    scaled(model, 3.0)
    method(model, tiny.batch(seed=1))
    assert method.unit == unit


def test_another_model_has_a_unit_of_its_own():
    """Tongjilibo/bert4torch#37: a method that goes on to another model must fit that one."""
    method, first, second = FGM(), tiny.bert(), scaled(tiny.bert(), 3.0)
    method(first, tiny.batch())
    unit = method.unit
    method(second, tiny.batch())
    assert_close(method.unit, 3 * unit)
    assert second.get_input_embeddings().weight.grad is not None


def test_a_given_unit_is_never_measured():
    method = FGM(unit=0.7)
    method(tiny.bert(), tiny.batch())
    method(scaled(tiny.bert(), 3.0), tiny.batch())
    assert method.unit == 0.7


def test_one_line_says_what_a_method_does_to_a_model(caplog):
    """Tongjilibo/bert4torch#85: the adversary was built and never attached."""
    caplog.set_level(logging.INFO, logger="sparring")
    method, model = FGM(epsilon=0.3, unit=2.0), tiny.bert()
    for _ in range(3):
        method(model, tiny.batch())
    site = "site=Embeddings(input_ids='input_ids', mask='attention_mask', call=0)"
    ball = "ball=L2(radius=inf, over='example', step='steepest')"
    arguments = f"{site}, unit=2.0, dropout='same', seed=0, epsilon=0.3, {ball}, weight=1.0, mean=False"
    place = "bert.embeddings.word_embeddings"
    assert caplog.messages == [f"FGM({arguments}) on {place}; 1 unit = 2; passes per batch: 2 full"]
    method(tiny.bag(), tiny.batch())
    assert len(caplog.messages) == 2
    assert " on words; " in caplog.messages[1]


@pytest.mark.parametrize(
    "method",
    [FGM(epsilon=0.3), FGSM(ball=Linf(0.2)), PGD(ball=L2(0.5, over="token")), FreeLB(site=Weight(), seed=3)],
)
def test_a_description_is_the_call_that_makes_the_method(method):
    names = {name: getattr(sparring, name) for name in sparring.__all__}
    again = eval(method.describe(), {**names, "inf": math.inf})
    assert again.describe() == method.describe()
    assert type(again) is type(method)


@pytest.mark.parametrize(
    ("passes", "text"),
    [
        (Passes(), "none"),
        (Passes(full=2), "2 full"),
        (Passes(full=1, ascent=3, forward=2), "1 full + 3 ascent + 2 forward"),
    ],
)
def test_passes_are_told_in_words(passes, text):
    assert str(passes) == text


# -- saving, copying -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", EVERY)
def test_a_resumed_run_is_the_unbroken_one_bit_for_bit(kind):
    method, model = EVERY[kind](), tiny.bert()
    for i in range(2):
        step(method, model, seed=i)
    state = saved_and_loaded(method.state_dict())
    resumed, resumed_model = EVERY[kind](), copy.deepcopy(model)
    resumed.load_state_dict(state)
    stream = torch.get_rng_state()
    unbroken_losses = [step(method, model, seed=i) for i in (2, 3)]
    torch.set_rng_state(stream)
    losses = [step(resumed, resumed_model, seed=i) for i in (2, 3)]
    assert losses == unbroken_losses
    assert resumed.unit == method.unit
    wanted = model.state_dict()
    assert all(torch.equal(value, wanted[name]) for name, value in resumed_model.state_dict().items())


def test_the_state_counts_what_was_skipped():
    method = FGM()
    method.skipped += 3
    other = FGM()
    other.load_state_dict(saved_and_loaded(method.state_dict()))
    assert other.read_figures() == {"adv/skipped": 3.0}


def test_the_state_is_plain_numbers():
    method = FreeLB()
    method(tiny.bag(), tiny.batch(), weight=0.5)
    assert method.state_dict() == {
        "_extra_state": {"calls": 1, "steps_done": 0.5, "unit": method.unit, "skipped": 0}
    }


def test_a_copy_made_in_mid_training_perturbs_the_model_and_not_a_copy_of_it():
    model = tiny.bert(dropout=0.0)
    method = FGM(epsilon=0.5)
    method(model, tiny.batch())
    model.zero_grad()
    wanted = method(model, tiny.batch())
    gradients = tiny.gradients(model)
    model.zero_grad()
    assert_close(copy.deepcopy(method)(model, tiny.batch()), wanted)
    assert_close(tiny.gradients(model), gradients)


# -- arguments -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "arguments", "message"),
    [
        (Plain, {"dropout": "other"}, "dropout is 'other', but must be 'same' or 'fresh'"),
        (Plain, {"unit": 0.0}, "unit is 0.0, but must be more than 0"),
        (Plain, {"unit": math.nan}, "unit is nan, but must be more than 0"),
        (FGM, {"epsilon": -0.1}, "epsilon is -0.1, but must be 0 or more"),
        (FGM, {"epsilon": math.nan}, "epsilon is nan, but must be 0 or more"),
        (FGM, {"weight": 0.0}, "weight is 0.0, but must be more than 0"),
        (FGSM, {"epsilon": -0.1}, "epsilon is -0.1, but must be 0 or more"),
        (PGD, {"steps": 0}, "steps is 0, but must be 1 or more"),
        (PGD, {"step_size": -0.1}, "step_size is -0.1, but must be 0 or more"),
        (PGD, {"start": -0.1}, "start is -0.1, but must be 0 or more"),
        (PGD, {"clean_weight": -0.1}, "clean_weight is -0.1, but must be 0 or more"),
        (FreeLB, {"steps": -1}, "steps is -1, but must be 1 or more"),
        (FreeLB, {"step_size": -0.1}, "step_size is -0.1, but must be 0 or more"),
        (FreeLB, {"start": -0.1}, "start is -0.1, but must be 0 or more"),
        (FreeLB, {"clean_weight": -0.1}, "clean_weight is -0.1, but must be 0 or more"),
    ],
)
def test_impossible_arguments_are_refused(kind, arguments, message):
    with pytest.raises(InputError, match=f"^{message}$"):
        kind(**arguments)


def test_an_unknown_argument_is_an_error():
    with pytest.raises(TypeError, match="stepsize"):
        FreeLB(stepsize=0.1)


def test_a_method_must_say_how_it_plays_and_what_it_costs():
    class Half(Method):
        def play(self, game):
            return game.loss()

    with pytest.raises(TypeError, match="abstract"):
        Half()


def test_the_methods_table_has_every_method_under_its_name():
    assert {"plain": Plain, "fgm": FGM, "fgsm": FGSM, "pgd": PGD, "freelb": FreeLB} == sparring.METHODS
