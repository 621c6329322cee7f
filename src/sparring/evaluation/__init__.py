"""What a model is worth: how accurate it is, how calibrated, how accurate under attack; and what to doubt."""

from sparring.evaluation.leaks import Leaks, find_leaks
from sparring.evaluation.result import AtRadius, Evaluation
from sparring.evaluation.robustness import RADII, attacked_accuracy, by_length, evaluate

__all__ = [
    "RADII",
    "AtRadius",
    "Evaluation",
    "Leaks",
    "attacked_accuracy",
    "by_length",
    "evaluate",
    "find_leaks",
]
