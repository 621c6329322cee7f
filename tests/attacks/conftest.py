"""What the attacks' tests attack."""

from __future__ import annotations

import pytest

from tests import tiny
from tests.attacks.linear import WRONG, answered


@pytest.fixture
def texts():
    """A BERT and a padded batch that it answers rightly, but for one example."""
    model = tiny.bert()
    batch = answered(model, tiny.batch(lengths=(7, 5, 6, 2, 4, 7)))
    batch["labels"][WRONG] = (batch["labels"][WRONG] + 1) % 3
    return model, batch
