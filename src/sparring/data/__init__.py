"""Data: read it, split it, number its labels. Nothing here imports torch.

`read` is the way in for a user's data, `default_data` and `default_model_path` for what is embedded.
"""

from sparring.data.default import default_data, default_model_path
from sparring.data.labels import LabelSet
from sparring.data.reading import read, splits
from sparring.data.records import Examples
from sparring.data.splitting import Split, split, subset

__all__ = [
    "Examples",
    "LabelSet",
    "Split",
    "default_data",
    "default_model_path",
    "read",
    "split",
    "splits",
    "subset",
]
