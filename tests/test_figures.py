"""Figures are weighted means since the last reading."""

from __future__ import annotations

import torch

from sparring.figures import Figures


def test_a_figure_is_the_weighted_mean_since_the_last_reading():
    figures = Figures()
    figures.add("loss", torch.tensor(1.0), 0.25)
    figures.add("loss", torch.tensor(2.0, requires_grad=True), 0.75)
    figures.add("norm", torch.tensor(5.0), 0.5)
    assert figures.read() == {"loss": 1.75, "norm": 5.0}
    assert figures.read() == {}
    figures.add("loss", torch.tensor(3.0), 1.0)
    assert figures.read() == {"loss": 3.0}
