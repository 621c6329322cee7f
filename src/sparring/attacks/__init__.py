"""Adversaries for evaluation: the strongest perturbation found of a model that is trained already."""

from sparring.attacks.embedding import Attacked, EmbeddingPGD

__all__ = ["Attacked", "EmbeddingPGD"]
