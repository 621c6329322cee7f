from __future__ import annotations

import sys
from pathlib import Path

import datasets
import pytest

from sparring.data import LabelSet, read, splits
from sparring.data.hub import is_name
from sparring.errors import InputError


@pytest.fixture(autouse=True)
def _apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No network, and a cache of the test's own."""
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "reviews"
    path.mkdir()
    (path / "train.csv").write_text("text,label\na film,0\na good film,1\n")
    (path / "test.csv").write_text("text,label\nanother,1\n")
    return path


def test_a_folder_has_splits(folder: Path) -> None:
    assert set(splits(folder)) == {"train", "test"}
    assert read(folder).texts == ["a film", "a good film"]
    test = read(str(folder), split="test")
    assert (test.texts, test.labels) == (["another"], [1])
    assert test.where(0) == f"{folder} (test), row 1"
    assert read(folder, split="train[1:]").texts == ["a good film"]


def test_the_only_split_is_read_whatever_its_name(folder: Path) -> None:
    (folder / "train.csv").unlink()
    assert read(folder).texts == ["another"]


def test_a_split_that_is_not_there_is_named_with_the_nearest(folder: Path) -> None:
    with pytest.raises(InputError, match=r"has no split 'tets': its splits are .*; did you mean 'test'\?"):
        read(folder, split="tets")


def test_integers_with_names_keep_both(tmp_path: Path) -> None:
    labels = datasets.ClassLabel(names=["pos", "neg", "none"])
    features = datasets.Features(
        {"text": datasets.Value("string"), "label": labels, "x": datasets.Sequence(datasets.Value("int8"))}
    )
    data = datasets.Dataset.from_dict(
        {"text": ["a", "b"], "label": [1, 0], "x": [[1], [2]]}, features=features
    )
    data.to_parquet(tmp_path / "named" / "train.parquet")
    examples = read(tmp_path / "named")
    assert examples.labels == [1, 0]
    assert examples.label_names == ("pos", "neg", "none")
    assert LabelSet.of(examples).names == ("pos", "neg", "none")


def test_the_hub_s_minus_one_is_a_missing_label(tmp_path: Path) -> None:
    features = datasets.Features(
        {"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["a", "b"])}
    )
    data = datasets.Dataset.from_dict({"text": ["a", "b"], "label": [1, -1]}, features=features)
    data.to_parquet(tmp_path / "unlabelled" / "test.parquet")
    with pytest.raises(InputError, match="row 2: 'label' is empty"):
        read(tmp_path / "unlabelled")
    assert read(tmp_path / "unlabelled", require_labels=False).labels is None


def test_a_broken_folder_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "broken").mkdir()
    with pytest.raises(InputError, match=r"broken: the folder can't be loaded: [^\n]*$"):
        read(tmp_path / "broken")
    (tmp_path / "broken" / "train.csv").write_text("text,label\na,0\nb,c,d,1\n")
    with pytest.raises(
        InputError, match=r"the folder can't be loaded: .*Expected 2 fields in line 3, saw 4$"
    ):
        read(tmp_path / "broken")


@pytest.mark.parametrize("name", ["no-such-data", "nobody/no-such-data", "nobody/no-such-data:part"])
def test_a_failure_of_the_hub_is_one_line(name: str) -> None:
    with pytest.raises(
        InputError, match=rf"^{name}: there is no such file or folder, and as a data set of the hub [^\n]*$"
    ):
        read(name)
    with pytest.raises(InputError, match="there is no such file or folder"):
        splits(name)


def test_a_configuration_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(
        datasets, "get_dataset_split_names", lambda *given: asked.append(given) or ["validation"]
    )
    data = datasets.Dataset.from_dict({"text": ["a"], "label": [0]})
    monkeypatch.setattr(datasets, "load_dataset", lambda *given, split: asked.append((*given, split)) or data)
    assert read("nyu-mll/glue:sst2").texts == ["a"]
    assert asked == [("nyu-mll/glue", "sst2"), ("nyu-mll/glue", "sst2", "validation")]


def test_names_are_told_from_paths() -> None:
    assert all(map(is_name, ["imdb", "nyu-mll/glue", "nyu-mll/glue:sst2", "a_b/c.d"]))
    assert not any(map(is_name, ["/data/imdb", "a/b/c", "a b", "../x", "~/x", ""]))


def test_without_datasets_it_says_what_to_install(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(InputError, match=r'need datasets: pip install "sparring\[data\]"'):
        read(folder)
