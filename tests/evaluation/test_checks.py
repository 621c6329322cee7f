"""Each reason to doubt an evaluation is given where it holds, and only there."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sparring.evaluation import AtRadius, Evaluation
from sparring.evaluation.checks import doubts


def point(radius: float, accuracy: float, **other) -> AtRadius:
    return AtRadius(
        **{
            "radius": radius,
            "accuracy": accuracy,
            "noise_accuracy": 0.8,
            "loss": 1.0,
            "class_shares": (0.4, 0.6),
            **other,
        }
    )


def evaluation(*points: AtRadius, **other) -> Evaluation:
    return Evaluation(
        **{
            "examples": 100,
            "accuracy": 0.8,
            "macro_f1": 0.8,
            "calibration_error": 0.1,
            "label_shares": (0.5, 0.5),
            "attack": "PGD",
            "unit": 1.0,
            "under_attack": points,
            "repeatable": True,
            "passes": {"forward": 1, "ascent": 1},
            **other,
        }
    )


CLEAN = point(0, 0.8, unmoved=1.0)  # nothing is raised by a perturbation of 0
USUAL = (CLEAN, point(0.1, 0.6), point(0.2, 0.6), point(0.4, 0.0))

DOUBTFUL = {
    "random": (evaluation(*USUAL, repeatable=False), "answers the same batch differently twice"),
    "not itself": (
        evaluation(*USUAL, accuracy=0.81),
        "accuracy is 0.8100, but 0.8000 under a perturbation of 0",
    ),
    "rising": (
        evaluation(CLEAN, point(0.1, 0.5), point(0.2, 0.6)),
        "rises from 0.5000 at radius 0.1 to 0.6000 at 0.2",
    ),
    "masked": (
        evaluation(CLEAN, point(0.1, 0.7, unmoved=0.3), point(0.2, 0.6, unmoved=0.2), point(0.3, 0.5)),
        "at radius 0.1, 0.2 the attack didn't raise the loss of up to 30%",
    ),
    "weaker than noise": (
        evaluation(CLEAN, point(0.1, 0.7, noise_accuracy=0.69), point(0.2, 0.6)),
        "at radius 0.1 random noise of the same size does more harm",
    ),
    "one class": (
        evaluation(CLEAN, point(0.1, 0.6, class_shares=(0.96, 0.04)), point(0.2, 0.5, class_shares=(1, 0))),
        "at radius 0.1, 0.2 the model predicts one class (0)",
    ),
    "not finite": (
        evaluation(CLEAN, point(0.1, 0.6, undefined=0.25)),
        "at radius 0.1 the logits of up to 25.0% of the examples aren't finite",
    ),
}


@pytest.mark.parametrize(("doubtful", "reason"), DOUBTFUL.values(), ids=DOUBTFUL.keys())
def test_each_reason_is_given_alone(doubtful, reason):
    (doubt,) = doubts(doubtful)
    assert reason in doubt
    assert "\n" not in doubt


def test_a_usual_evaluation_raises_no_doubt():
    assert doubts(evaluation(*USUAL)) == []


def test_what_is_just_tolerable_raises_no_doubt():
    edge = point(0.1, 0.7, unmoved=0.1, noise_accuracy=0.7, class_shares=(0.06, 0.94))
    assert doubts(evaluation(CLEAN, edge)) == []


def test_reasons_add_up():
    both = replace(DOUBTFUL["one class"][0], repeatable=False)
    assert len(doubts(both)) == 2
