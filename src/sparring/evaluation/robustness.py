"""Measure a classifier: accuracy, calibration, and accuracy under attack over a range of radii."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from sparring.attacks.embedding import Attacked, EmbeddingPGD
from sparring.attacks.strongest import UNDEFINED, Batch
from sparring.errors import InputError
from sparring.evaluation.checks import doubts
from sparring.evaluation.result import AtRadius, Evaluation
from sparring.game import Forward, outputs_of
from sparring.loops.batches import moved
from sparring.method import Passes
from sparring.probe import evaluating
from sparring.randomness import devices_of, restore, seeded, untouched
from sparring.tasks.classification import metrics

RADII = (0.05, 0.1, 0.2, 0.4)
"""In mean word-embedding norms; the norm is that of a whole text's perturbation."""
RAISED = 1e-4
"""A loss has risen where it is higher by this share, which is more than rounding does."""


def evaluate(
    model: nn.Module,
    batches: Iterable[Batch],
    *,
    attack: EmbeddingPGD | None = None,
    radii: Sequence[float] = RADII,
    order: Sequence[int] | None = None,
    hashes: Sequence[str] | None = None,
) -> Evaluation:
    """Measure a model on labelled batches, without and under attack. The model is left as it was.

    Costs a forward an example, one more at each radius for the noise, and what the attack takes.

    Args:
        model: in any mode, on any device.
        batches: dicts with `input_ids`, `labels` and what else the model takes; moved to its device.
        attack: `EmbeddingPGD()` where None; its own `radius` isn't used.
        radii: in units of the attack; 0 is measured too, as a check.
        order: the number in the data, from 0, of each example as they come; where `by_length` sorted them.
        hashes: of the texts, in the data's order, by which the rows name them.

    Raises:
        InputError: no examples, or the attack doesn't fit the batches or the model.
    """
    attack = attack if attack is not None else EmbeddingPGD()
    radii = sorted({0.0, *map(float, radii)})
    device = _device(model)
    swept: list[list[Attacked]] = []
    noisy: list[Tensor] = []
    unit, repeatable = 1.0, True
    for given in batches:
        batch = moved(given, device)
        if not swept:
            unit, repeatable = attack.unit_of(model, batch), _repeatable(model, batch, attack.forward)
        swept.append(attack.sweep(model, batch, radii))
        noisy.append(torch.stack([attack.noise(model, batch, radius) for radius in radii]))
    if not swept:
        raise InputError("there are no examples to evaluate")
    noise = torch.cat(noisy, dim=1).cpu()
    place = _place(order, noise.shape[1])
    noise, results = noise[:, place], [_joined(parts, place) for parts in zip(*swept, strict=True)]
    clean = results[0]
    known = metrics(clean.logits, clean.labels)
    evaluation = Evaluation(
        examples=len(clean.labels),
        accuracy=known["accuracy"],
        macro_f1=known["macro_f1"],
        calibration_error=known["calibration_error"],
        label_shares=_shares(clean.labels, clean.logits.shape[1]),
        attack=attack.describe(),
        unit=unit,
        under_attack=tuple(_at(result, under) for result, under in zip(results, noise, strict=True)),
        repeatable=repeatable,
        passes={
            "forward": sum(result.passes.forward for result in results) + noise.numel(),
            "ascent": sum(result.passes.ascent for result in results),
        },
        rows=_rows(results, hashes),
    )
    return replace(evaluation, warnings=tuple(doubts(evaluation)))


def attacked_accuracy(attack: EmbeddingPGD) -> Callable[[nn.Module, Iterable[Batch]], Mapping[str, float]]:
    """`AdversarialTrainer(robust_metric=attacked_accuracy(EmbeddingPGD(0.1)))`, to choose a checkpoint by.

    With `metric_for_best_model="attacked_accuracy"`. The unit is measured at the first evaluation, and kept.
    """

    def measure(model: nn.Module, batches: Iterable[Batch]) -> Mapping[str, float]:
        survived = [attack(model, moved(batch, _device(model))).survived for batch in batches]
        return {"attacked_accuracy": _mean(torch.cat(survived))}

    return measure


def by_length(lengths: Sequence[int], batch_size: int) -> list[list[int]]:
    """The examples' numbers in batches of like length, so of little padding, the longest first."""
    order = sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True)
    return [order[start : start + batch_size] for start in range(0, len(order), batch_size)]


def _device(model: nn.Module) -> torch.device:
    return next((parameter.device for parameter in model.parameters()), torch.device("cpu"))


def _place(order: Sequence[int] | None, examples: int) -> Tensor:
    """Where in the batches each example of the data is."""
    if order is None:
        return torch.arange(examples)
    if sorted(order) != list(range(examples)):
        raise InputError(f"order must name each of the {examples} examples in the batches once, from 0")
    return torch.tensor(order).argsort()


def _at(result: Attacked, noise: Tensor) -> AtRadius:
    right = result.clean == result.labels
    unmoved = right & ~(result.loss > result.clean_loss * (1 + RAISED))
    return AtRadius(
        radius=result.radius,
        accuracy=_mean(result.survived),
        noise_accuracy=_mean(right & (noise == result.labels)),
        loss=float(result.loss.nanmean()),
        class_shares=_shares(result.attacked, result.logits.shape[1]),
        unmoved=float(unmoved.sum() / right.sum().clamp(min=1)),
        undefined=_mean(result.attacked == UNDEFINED),
    )


def _joined(parts: Sequence[Attacked], place: Tensor) -> Attacked:
    """The batches' results at one radius as one, on the CPU, in the data's order."""

    def joined(name: str) -> Tensor:
        return torch.cat([getattr(part, name) for part in parts]).cpu()[place]

    return Attacked(
        radius=parts[0].radius,
        labels=joined("labels"),
        logits=joined("logits"),
        clean=joined("clean"),
        attacked=joined("attacked"),
        clean_loss=joined("clean_loss"),
        loss=joined("loss"),
        norm=joined("norm"),
        passes=Passes(
            forward=sum(part.passes.forward for part in parts),
            ascent=sum(part.passes.ascent for part in parts),
        ),
    )


def _rows(results: Sequence[Attacked], hashes: Sequence[str] | None) -> tuple[dict[str, Any], ...]:
    clean = results[0]
    if hashes is not None and len(hashes) != len(clean.labels):
        raise InputError(f"{len(hashes)} hashes for {len(clean.labels)} examples: give one each, in order")
    confidence = clean.logits.softmax(1).amax(1)
    return tuple(
        {
            "index": i,
            **({"hash": hashes[i]} if hashes is not None else {}),
            "label": int(clean.labels[i]),
            "prediction": _class(clean.clean[i]),
            "confidence": float(confidence[i]),
            "under_attack": {f"{result.radius:g}": _class(result.attacked[i]) for result in results},
        }
        for i in range(len(clean.labels))
    )


def _class(prediction: Tensor) -> int | None:
    return None if prediction == UNDEFINED else int(prediction)


def _shares(classes: Tensor, count: int) -> tuple[float, ...]:
    return tuple((classes == i).double().mean().item() for i in range(count))


def _mean(mask: Tensor) -> float:
    return mask.double().mean().item()


def _repeatable(model: nn.Module, batch: Batch, forward: Forward) -> bool:
    """Whether two forwards in evaluation mode give the same logits, whatever the random state."""
    devices = devices_of(model)
    answers = []
    with evaluating(model), torch.no_grad(), untouched(devices):
        for seed in (0, 1):
            restore(seeded(devices, seed))
            answers.append(outputs_of(forward(model, batch)).logits)
    one, other = answers
    return one is None or other is None or torch.allclose(one, other, rtol=1e-4, atol=1e-5, equal_nan=True)
