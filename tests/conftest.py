"""What every test starts from: no network, one thread, a seeded random state, reproducible hypothesis."""

from __future__ import annotations

import os

os.environ["HF_HUB_OFFLINE"] = "1"  # read when huggingface_hub is imported
os.environ["TOKENIZERS_PARALLELISM"] = "false"

import pytest
import torch
from hypothesis import settings

torch.set_num_threads(1)  # the models are tiny

settings.register_profile("suite", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("suite")


@pytest.fixture(autouse=True)
def seeded():
    """No test depends on what ran before it."""
    torch.manual_seed(0)
