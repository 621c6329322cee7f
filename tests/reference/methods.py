"""Every method, with everything it has switched on."""

from __future__ import annotations

from sparring import FGM, FGSM, PGD, Delayed, FreeLB, Plain

EVERY = {
    "plain": Plain,
    "fgm": FGM,
    "fgsm": FGSM,
    "pgd": lambda **common: PGD(start=0.1, clean_weight=0.5, **common),
    "freelb": lambda **common: FreeLB(clean_weight=0.5, **common),
    "delayed": lambda **common: Delayed(FreeLB(**common), 0),
}
