"""The conformance suite: what every method must hold, ours and other people's.

    check_method(lambda: MyMethod(size=0.1), at_zero=lambda: MyMethod(size=0))

runs the method over a model and a batch, and raises AssertionError with the name of the first check that
fails. It needs torch only.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from sparring.method import Method
from sparring.randomness import devices_of, untouched
from sparring.testing import circumstances, gradients, promises, states, traces
from sparring.testing.batches import IDS, Batch, in_dtype, whole
from sparring.testing.setting import NotCheckedError, Setting, require
from sparring.testing.toy import toy

CHECKS: tuple[Callable[[Setting], None], ...] = (
    gradients.the_loss_is_a_detached_scalar,
    traces.parameters_and_buffers_stay_bit_equal,
    traces.no_hook_is_left,
    traces.no_attribute_is_left,
    traces.train_and_eval_flags_stay,
    traces.the_random_stream_is_as_plain_training_leaves_it,
    traces.a_failing_forward_leaves_no_trace,
    traces.a_failing_backward_leaves_no_trace,
    gradients.the_same_parameters_have_gradients,
    gradients.two_calls_accumulate,
    gradients.passes_are_as_documented,
    gradients.ascent_passes_compute_no_weight_gradients,
    gradients.perturbations_are_zero_on_padding,
    circumstances.unused_parameters_get_no_gradient,
    circumstances.frozen_embeddings_change_no_other_gradient,
    circumstances.a_fully_padded_row_is_harmless,
    circumstances.ignored_labels_are_as_in_plain_training,
    circumstances.autocast_keeps_perturbations_in_float32,
    circumstances.a_bfloat16_model_has_perturbations_in_float32,
    circumstances.checkpointing_changes_no_gradient,
    circumstances.re_entrant_checkpointing_changes_no_gradient,
    states.the_model_is_no_part_of_the_method,
    states.two_methods_do_not_disturb_each_other,
    states.a_resumed_run_continues_bit_for_bit,
    promises.random_starts_are_declared,
    promises.sizes_zero_give_the_plain_gradient,
    promises.an_example_has_the_same_perturbation_in_any_batch,
    promises.an_example_has_the_same_perturbation_under_padding_on_the_right,
    promises.an_example_has_the_same_perturbation_under_padding_on_the_left,
    promises.micro_batches_give_the_gradient_of_the_batch,
)


def check_method(
    factory: Callable[[], Method],
    model: nn.Module | None = None,
    batch: Batch | None = None,
    *,
    at_zero: Callable[[], Method] | None = None,
    items: Callable[[Batch], float] = lambda batch: len(batch[IDS]),
    pad_id: int = 0,
    warm_up: int = 0,
    tolerance: float = 1e-9,
) -> dict[str, str]:
    """Check that a method keeps the contract of `sparring.Method`, and what its `properties` declare.

    Args:
        factory: makes the method; called many times, so that every check begins with a new one.
        model: any model that the method can train; checks work on copies of it, in float64. A small
            classifier where none is given.
        batch: the model's keyword arguments, 4 examples or more: `input_ids`, `[examples, tokens]`, padded to
            one length; `attention_mask` where the model takes one; `labels`. Every tensor shaped like
            `input_ids` has one entry per token.
        at_zero: makes the same method with sizes 0; needed where the method declares `plain_at_zero`.
        items: how many items of a batch the model's loss is the mean of, where they are not the examples: the
            labels that count, for a language model.
        pad_id: the token id of padding.
        warm_up: how many batches a method is given before it is checked: for methods that begin later.
        tolerance: what counts as equal, in units of the largest entry; 1e-6 for models that compute parts of
            themselves in float32 whatever they are in (T5's norms, Hugging Face's language model loss).

    Returns:
        Each check's name, with "" if it held, or with the reason why it has nothing to say here.

    Raises:
        AssertionError: the name of a check, and what doesn't hold.
    """
    require((model is None) == (batch is None), "check_method: pass a model and a batch for it, or neither")
    if model is None or batch is None:
        model, batch = toy()
    examples = len(whole(batch).rows)
    require(examples >= 4, f"check_method: the batch has {examples} examples, but must have 4 or more")
    model, batch = copy.deepcopy(model).double(), in_dtype(batch, torch.float64)
    options = {"items": items, "pad_id": pad_id, "warm_up": warm_up, "tolerance": tolerance}
    with untouched(devices_of(model)):
        setting = _measured(factory, model, batch, at_zero=at_zero, **options)
        return {check.__name__: _outcome(check, setting) for check in CHECKS}


def _measured(factory: Callable[[], Method], model: nn.Module, batch: Batch, **options: Any) -> Setting:
    """The setting, with the method's unit as measured on the whole batch: parts of it give others."""
    method = factory()
    method(copy.deepcopy(model).train(), batch)
    return Setting(factory, model, batch, forward=method.call, unit=method.unit, **options)


def _outcome(check: Callable[[Setting], None], setting: Setting) -> str:
    try:
        check(setting)
    except NotCheckedError as reason:
        return str(reason)
    except AssertionError as error:
        raise AssertionError(f"{check.__name__}: {error}") from error
    return ""
