from __future__ import annotations

import gc

import pytest
from accelerate.state import AcceleratorState


@pytest.fixture(scope="session", autouse=True)
def _quick_collection():
    """Each Trainer collects garbage; it needn't look through all that the imports have left."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(autouse=True)
def _fresh_accelerate(monkeypatch):
    """Accelerate's state is global, and older Trainers set its environment: bf16 would outlast its test."""
    monkeypatch.delenv("ACCELERATE_MIXED_PRECISION", raising=False)
    AcceleratorState._reset_state(True)
