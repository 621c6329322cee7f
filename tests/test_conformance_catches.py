"""The conformance suite sees each kind of mistake: a method with one in it fails the check of that name."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from torch import nn

from sparring import Output
from sparring.testing import CHECKS, check_method
from sparring.testing.toy import toy
from tests import conformance_broken as calls
from tests import conformance_broken_promises as promises
from tests.conformance_broken import Sound, WritesABuffer
from tests.conformance_models import Subject, bert, lstm

BROKEN: list[tuple[str, type[Sound]]] = [
    ("the_loss_is_a_detached_scalar", calls.ReturnsAVector),
    ("parameters_and_buffers_stay_bit_equal", calls.WritesWeightsAndTakesItBack),
    ("no_hook_is_left", calls.LeavesAHook),
    ("no_hook_is_left", calls.LeavesAHookOnAParameter),
    ("no_attribute_is_left", calls.LeavesAnAttribute),
    ("no_attribute_is_left", calls.ReordersTheStateDict),
    ("train_and_eval_flags_stay", calls.TurnsAllModulesToTraining),
    ("train_and_eval_flags_stay", calls.FreezesAParameter),
    ("the_random_stream_is_as_plain_training_leaves_it", calls.DrawsFromTheGlobalStream),
    ("the_random_stream_is_as_plain_training_leaves_it", calls.DrawsFromPythonsStream),
    ("a_failing_forward_leaves_no_trace", calls.HooksWithoutFinally),
    ("a_failing_backward_leaves_no_trace", calls.SwitchesBackwardsWithoutFinally),
    ("the_same_parameters_have_gradients", calls.TrainsAllButTheEmbeddings),
    ("two_calls_accumulate", calls.DropsWhatWasAccumulated),
    ("passes_are_as_documented", calls.TakesAPassMore),
    ("passes_are_as_documented", calls.TakesAPassBesideTheGame),
    ("ascent_passes_compute_no_weight_gradients", calls.AscendsByBackward),
    ("perturbations_are_zero_on_padding", calls.PerturbsPadding),
    ("unused_parameters_get_no_gradient", calls.GivesUnusedParametersZeros),
    ("frozen_embeddings_change_no_other_gradient", calls.DoesNothingToFrozenEmbeddings),
    ("a_fully_padded_row_is_harmless", calls.DividesByTheNumberOfTokens),
    ("ignored_labels_are_as_in_plain_training", calls.DividesByTheNormOfAllGradients),
    ("autocast_keeps_perturbations_in_float32", calls.RoundsUnderAutocast),
    ("a_bfloat16_model_has_perturbations_in_float32", calls.RoundsToTheModelsPrecision),
    ("the_model_is_no_part_of_the_method", promises.KeepsTheModel),
    ("the_model_is_no_part_of_the_method", promises.KeepsAnEmbedding),
    ("two_methods_do_not_disturb_each_other", promises.SharesWithTheOthers),
    ("a_resumed_run_continues_bit_for_bit", promises.ForgetsItsSchedule),
    ("random_starts_are_declared", promises.KeepsItsRandomStartToItself),
    ("sizes_zero_give_the_plain_gradient", promises.AddsTheCleanLoss),
    ("sizes_zero_give_the_plain_gradient", promises.DrawsFreshDropoutMasks),
    ("an_example_has_the_same_perturbation_in_any_batch", promises.TakesOneNormOverTheBatch),
    ("an_example_has_the_same_perturbation_under_padding_on_the_right", promises.CountsPadding),
    ("micro_batches_give_the_gradient_of_the_batch", promises.ForgetsTheWeight),
]
BROKEN_ON: list[tuple[str, type[Sound], Subject]] = [
    ("checkpointing_changes_no_gradient", calls.TakesItsHookAwayBeforeTheBackward, bert()),
    ("re_entrant_checkpointing_changes_no_gradient", calls.AscendsOnAGradientOfItsOwn, bert()),
    (
        "an_example_has_the_same_perturbation_under_padding_on_the_left",
        promises.CountsFromTheLeft,
        lstm(),
    ),
]


def test_a_sound_method_passes() -> None:
    outcome = check_method(Sound, at_zero=lambda: Sound(size=0.0))
    assert list(outcome) == [check.__name__ for check in CHECKS]


def test_every_check_has_a_method_that_it_catches() -> None:
    assert {check.__name__ for check in CHECKS} == {name for name, *_ in [*BROKEN, *BROKEN_ON]}


@pytest.mark.parametrize(("check", "broken"), BROKEN, ids=lambda value: getattr(value, "__name__", ""))
def test_a_broken_method_is_caught(check: str, broken: type[Sound]) -> None:
    with pytest.raises(AssertionError, match=f"^{check}: "):
        check_method(broken, at_zero=lambda: broken(size=0.0))


@pytest.mark.parametrize(
    ("check", "broken", "subject"), BROKEN_ON, ids=lambda value: getattr(value, "__name__", "")
)
def test_a_method_that_some_models_break_is_caught_on_one_of_them(
    check: str, broken: type[Sound], subject: Subject
) -> None:
    site = Output(subject.layer)
    with pytest.raises(AssertionError, match=f"^{check}: "):
        check_method(
            lambda: broken(site=site),
            subject.model,
            subject.batch,
            at_zero=lambda: broken(site=site, size=0.0),
        )


def test_a_method_that_writes_a_buffer_is_caught() -> None:
    model, batch = toy()
    model.register_buffer("seen", torch.zeros(()))
    with pytest.raises(
        AssertionError, match=r"^parameters_and_buffers_stay_bit_equal: a call changed the buffer seen"
    ):
        check_method(WritesABuffer, model, batch)


def test_a_promise_that_cannot_be_checked_is_no_pass() -> None:
    message = "sizes_zero_give_the_plain_gradient: plain_at_zero is declared, so pass at_zero="
    with pytest.raises(AssertionError, match=re.escape(message)):
        check_method(Sound)


def test_the_model_and_the_random_stream_are_left_alone() -> None:
    model, batch = toy()
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    state = torch.get_rng_state()
    check_method(Sound, model.eval(), batch, at_zero=lambda: Sound(size=0.0))
    assert torch.equal(torch.get_rng_state(), state)
    assert not model.training
    assert all(parameter.grad is None for parameter in model.parameters())
    assert all(torch.equal(value, weights[name]) for name, value in model.state_dict().items())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"model": nn.Linear(1, 1)}, "pass a model and a batch for it, or neither"),
        ({"batch": toy()[1]}, "pass a model and a batch for it, or neither"),
        (
            {"model": toy()[0], "batch": {"input_ids": torch.ones(3, 2)}},
            "has 3 examples, but must have 4 or more",
        ),
    ],
)
def test_a_call_that_cannot_be_checked_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_method(Sound, **arguments)
