"""Adversarial training of transformer language models."""

from sparring import divergences
from sparring.balls import L1, L2, Ball, Linf
from sparring.errors import InputError
from sparring.game import Game
from sparring.method import Method, Passes, Properties
from sparring.methods import FGM, FGSM, METHODS, PGD, FreeLB, Plain
from sparring.sites import Embeddings, Output, Site, Weight
from sparring.wrappers import Delayed, Every

__version__ = "0.1.0"

__all__ = [
    "FGM",
    "FGSM",
    "L1",
    "L2",
    "METHODS",
    "PGD",
    "Ball",
    "Delayed",
    "Embeddings",
    "Every",
    "FreeLB",
    "Game",
    "InputError",
    "Linf",
    "Method",
    "Output",
    "Passes",
    "Plain",
    "Properties",
    "Site",
    "Weight",
    "divergences",
]
