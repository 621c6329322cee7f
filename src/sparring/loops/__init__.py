"""The loops that a method runs in: one host, one file, each proved equal to the others.

`fit` is plain PyTorch. The Trainer's side is in `sparring.loops.huggingface`, which imports transformers.
"""

from sparring.loops.plain import fit

__all__ = ["fit"]
