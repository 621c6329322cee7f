"""What training meets: frozen parts, rows of padding, ignored labels, low precision, checkpointing."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from sparring import anatomy
from sparring.errors import InputError
from sparring.testing.batches import (
    LABELS,
    Batch,
    in_dtype,
    whole,
    without_labels_that_count,
    without_last_text,
)
from sparring.testing.gradients import require_same_trained
from sparring.testing.setting import NotCheckedError, Run, Setting, difference, plain, play, require


def unused_parameters_get_no_gradient(setting: Setting) -> None:
    """A parameter that the loss doesn't depend on has None, not zeros, and is no obstacle."""
    model = setting.subject()
    model.register_parameter("unused", nn.Parameter(torch.ones(2)))
    require_same_trained(setting, model)


def frozen_embeddings_change_no_other_gradient(setting: Setting) -> None:
    """With frozen word embeddings, as under LoRA, the perturbation is what it was."""
    model = setting.subject(dropout=False)
    try:
        _, embeddings = anatomy.word_embeddings(model)
    except InputError as error:
        raise NotCheckedError(str(error)) from error
    with setting.noise(whole(setting.batch)):
        free = play(setting.method(model), model, setting.batch).grads
        embeddings.requires_grad_(requires_grad=False)
        frozen = play(setting.method(model), model, setting.batch).grads
    expected = {name: free[name] if p.requires_grad else None for name, p in model.named_parameters()}
    wrong = difference(frozen, expected, setting.tolerance)
    require(not wrong, f"with frozen word embeddings the gradient differs at {wrong}")


def a_fully_padded_row_is_harmless(setting: Setting) -> None:
    """A text without tokens has no norm to divide by."""
    model, batch = setting.subject(), without_last_text(setting.batch, setting.pad_id)
    _require_finite_as_plain(setting, model, batch, "with a fully padded row")


def ignored_labels_are_as_in_plain_training(setting: Setting) -> None:
    """A batch in which no label counts gives NaN where plain training does, and nowhere else."""
    labels = setting.batch.get(LABELS)
    if not isinstance(labels, Tensor) or labels.is_floating_point():
        raise NotCheckedError("the batch has no integer labels")
    model, batch = setting.subject(), without_labels_that_count(setting.batch)
    _require_finite_as_plain(setting, model, batch, "with all labels ignored")


def autocast_keeps_perturbations_in_float32(setting: Setting) -> None:
    """Under bfloat16 autocast steps are not rounded to 8 bits."""
    model, batch = setting.subject().float(), in_dtype(setting.batch, torch.float32)
    with torch.autocast(next(model.parameters()).device.type, torch.bfloat16):
        _require_float32_perturbations(setting, model, batch)


def a_bfloat16_model_has_perturbations_in_float32(setting: Setting) -> None:
    """Nor are they where the whole model is in bfloat16."""
    model, batch = setting.subject().bfloat16(), in_dtype(setting.batch, torch.bfloat16)
    _require_float32_perturbations(setting, model, batch)


def checkpointing_changes_no_gradient(setting: Setting) -> None:
    """Blocks that are recomputed in the backward are recomputed under their perturbation."""
    _require_same_with_checkpointing(setting, use_reentrant=False)


def re_entrant_checkpointing_changes_no_gradient(setting: Setting) -> None:
    """The older kind, which forbids `autograd.grad`."""
    _require_same_with_checkpointing(setting, use_reentrant=True)


@runtime_checkable
class Checkpoints(Protocol):
    """Hugging Face's protocol of gradient checkpointing."""

    def activation_checkpointing_enable(self, activation_checkpointing_kwargs: dict[str, Any]) -> None: ...


@runtime_checkable
class CheckpointsByItsOldName(Protocol):
    """The same before transformers 5.24."""

    def gradient_checkpointing_enable(self, gradient_checkpointing_kwargs: dict[str, Any]) -> None: ...


def _turn_checkpointing_on(model: nn.Module, kind: dict[str, Any]) -> None:
    try:
        if isinstance(model, Checkpoints):
            model.activation_checkpointing_enable(activation_checkpointing_kwargs=kind)
        elif isinstance(model, CheckpointsByItsOldName):
            model.gradient_checkpointing_enable(gradient_checkpointing_kwargs=kind)
        else:
            raise NotCheckedError("the model doesn't checkpoint by Hugging Face's protocol")
    except ValueError as error:
        raise NotCheckedError(str(error)) from error


def _require_same_with_checkpointing(setting: Setting, *, use_reentrant: bool) -> None:
    model = setting.subject()
    without = play(setting.method(model), model, setting.batch).grads
    _turn_checkpointing_on(model, {"use_reentrant": use_reentrant})
    method = setting.method(model)
    try:
        with_it = play(method, model, setting.batch).grads
    except RuntimeError as error:
        raise AssertionError(f"with checkpointing the method fails: {error}") from error
    wrong = difference(with_it, without, setting.tolerance)
    require(not wrong, f"with checkpointing the gradient differs at {wrong}")


def _plain_if_it_runs(setting: Setting, model: nn.Module, batch: Batch) -> Run:
    """Plain training, which some models and processors refuse on what is unusual."""
    try:
        return plain(model, batch, setting.forward)
    except (ValueError, RuntimeError) as error:
        raise NotCheckedError(f"plain training fails: {error}") from error


def _require_finite_as_plain(setting: Setting, model: nn.Module, batch: Batch, when: str) -> None:
    """Perturbations are finite, and so are gradients wherever plain training's are."""
    theirs = _plain_if_it_runs(setting, model, batch)
    ours = play(setting.method(model), model, batch)
    _require_finite_perturbations(ours, when)
    for name, grad in ours.grads.items():
        expected = theirs.grads[name]
        if grad is not None and expected is not None:
            same = torch.equal(grad.isfinite(), expected.isfinite())
            require(
                same, f"{when} the gradient of {name} is not finite where plain training's is, or reversed"
            )


def _require_float32_perturbations(setting: Setting, model: nn.Module, batch: Batch) -> None:
    _plain_if_it_runs(setting, model, batch)
    run = play(setting.method(model), model, batch)
    _require_finite_perturbations(run, "in bfloat16")
    for seen in run.passes:
        if seen.delta is not None:
            require(seen.delta.dtype == torch.float32, f"a perturbation is {seen.delta.dtype}, not float32")
    for name, grad in run.grads.items():
        require(grad is None or bool(grad.isfinite().all()), f"the gradient of {name} is not finite")


def _require_finite_perturbations(run: Run, when: str) -> None:
    for number, seen in enumerate(run.passes, start=1):
        finite = seen.delta is None or bool(seen.delta.isfinite().all())
        require(finite, f"{when} the perturbation of pass {number} is not finite")
