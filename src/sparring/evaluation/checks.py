"""What to doubt in an evaluation, found in its own numbers.

After the checks of AutoAttack (Croce and Hein 2020, https://arxiv.org/abs/2003.01690; checks.py in
https://github.com/fra31/auto-attack).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from sparring.evaluation.result import AtRadius, Evaluation

MASKED = 0.1
"""The share of unmoved examples above which gradients look masked: a step up a true one raises the loss."""
ONE_CLASS = 0.95
"""The share of the predictions above which one class makes up the accuracy."""


def doubts(evaluation: Evaluation) -> list[str]:
    """The reasons to doubt these numbers, one line each. Usually there are none."""
    points = evaluation.under_attack
    attacked = [point for point in points if point.radius > 0]
    found = [
        _random(evaluation),
        _undefined(points),
        *(_not_itself(evaluation, point) for point in points if point.radius == 0),
        *(_rising(small, large) for small, large in pairwise(points)),
        _masked(attacked),
        _weaker_than_noise(attacked),
        _one_class(points),
    ]
    return [doubt for doubt in found if doubt]


def _random(evaluation: Evaluation) -> str:
    if evaluation.repeatable:
        return ""
    return "the model answers the same batch differently twice: something in it is random in evaluation mode"


def _undefined(points: Sequence[AtRadius]) -> str:
    points = [point for point in points if point.undefined > 0]
    if not points:
        return ""
    most = max(point.undefined for point in points)
    return f"{_at(points)} the logits of up to {most:.1%} of the examples aren't finite; they count as wrong"


def _not_itself(evaluation: Evaluation, point: AtRadius) -> str:
    if point.accuracy == evaluation.accuracy:
        return ""
    return (
        f"accuracy is {evaluation.accuracy:.4f}, but {point.accuracy:.4f} under a perturbation of 0: what is "
        f"attacked isn't the model that is used"
    )


def _rising(small: AtRadius, large: AtRadius) -> str:
    if large.accuracy <= small.accuracy:
        return ""
    return (
        f"accuracy under attack rises from {small.accuracy:.4f} at radius {small.radius:g} to "
        f"{large.accuracy:.4f} at {large.radius:g}, the larger ball: the attack is too weak there"
    )


def _masked(points: Sequence[AtRadius]) -> str:
    points = [point for point in points if point.unmoved > MASKED]
    if not points:
        return ""
    most = max(point.unmoved for point in points)
    return (
        f"{_at(points)} the attack didn't raise the loss of up to {most:.0%} of the examples it attacked: "
        f"gradients may be masked, and accuracy under attack too high"
    )


def _weaker_than_noise(points: Sequence[AtRadius]) -> str:
    points = [point for point in points if point.noise_accuracy < point.accuracy]
    if not points:
        return ""
    return (
        f"{_at(points)} random noise of the same size does more harm than the attack: the attack is too "
        f"weak, and accuracy under attack too high"
    )


def _one_class(points: Sequence[AtRadius]) -> str:
    points = [point for point in points if max(point.class_shares) >= ONE_CLASS]
    if not points:
        return ""
    classes = sorted({point.class_shares.index(max(point.class_shares)) for point in points})
    return (
        f"{_at(points)} the model predicts one class ({' or '.join(map(str, classes))}): accuracy there is "
        f"that class's share of the labels, not robustness"
    )


def _at(points: Sequence[AtRadius]) -> str:
    return f"at radius {', '.join(f'{point.radius:g}' for point in points)}"
