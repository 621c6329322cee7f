from __future__ import annotations

import gc

import pytest


@pytest.fixture(scope="session", autouse=True)
def _quick_collection():
    """Each Trainer collects garbage; it needn't look through all that the imports have left."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()
