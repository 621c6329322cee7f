"""The methods, by the name that the command line knows them by. One paper, one file."""

from sparring.method import Method
from sparring.methods.fgm import FGM, FGSM
from sparring.methods.freelb import FreeLB
from sparring.methods.pgd import PGD
from sparring.methods.plain import Plain

METHODS: dict[str, type[Method]] = {"plain": Plain, "fgm": FGM, "fgsm": FGSM, "pgd": PGD, "freelb": FreeLB}

__all__ = ["FGM", "FGSM", "METHODS", "PGD", "FreeLB", "Plain"]
