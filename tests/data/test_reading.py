from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import sparring
from sparring.data import Examples, read, splits
from sparring.errors import InputError

PACKAGE = Path(sparring.__file__).parent
CONTENT = {
    "data.csv": "text,label\na film,neg\na good film,pos\n",
    "data.tsv": "text\tlabel\na film\tneg\na good film\tpos\n",
    "data.jsonl": '{"text": "a film", "label": "neg"}\n{"text": "a good film", "label": "pos"}\n',
    "data.json": '[{"text": "a film", "label": "neg"}, {"text": "a good film", "label": "pos"}]',
    "DATA.CSV": "text,label\na film,neg\na good film,pos\n",
}


@pytest.fixture
def file(tmp_path: Path):
    def write(name: str, content: str) -> Path:
        path = tmp_path / name
        path.write_text(content, encoding="utf-8")
        return path

    return write


@pytest.fixture
def refusal(tmp_path: Path):
    def message(path: Path, **given) -> str:
        with pytest.raises(InputError) as caught:
            read(path, **given)
        assert "\n" not in str(caught.value)
        return str(caught.value).removeprefix(f"{tmp_path}/")

    return message


@pytest.mark.parametrize("name", CONTENT)
def test_all_formats_give_the_same_examples(file, name: str) -> None:
    examples = read(file(name, CONTENT[name]))
    assert examples.texts == ["a film", "a good film"]
    assert examples.labels == ["neg", "pos"]
    assert examples.pairs is None
    assert examples.columns == {"text": "text", "label": "label"}
    assert examples.data_hash() == Examples(["a film", "a good film"], labels=["neg", "pos"]).data_hash()


def test_places_are_kept_for_messages(file) -> None:
    path = file("data.csv", 'text,label\n"a\nb",0\nc,1\n')
    assert read(str(path)).where(1) == f"{path}, line 4"


def test_pairs_are_read(file) -> None:
    examples = read(file("data.tsv", "premise\thypothesis\tgold_label\na\tb\tneutral\nc\td\tcontradiction\n"))
    assert (examples.texts, examples.pairs) == (["a", "c"], ["b", "d"])
    assert examples.columns == {"text": "premise", "pair": "hypothesis", "label": "gold_label"}


def test_columns_can_be_named(file) -> None:
    examples = read(file("d.csv", "a,b,c,text\n1,2,3,4\n"), text="a", pair="b", label="c")
    assert (examples.texts, examples.pairs, examples.labels) == (["1"], ["2"], ["3"])


def test_labels_are_kept_as_found(file) -> None:
    values = ('"b "', "0", "2.0", "true", '"01"', "-1")
    lines = [f'{{"text": "a", "label": {value}}}' for value in values]
    assert read(file("d.jsonl", "\n".join(lines))).labels == ["b", 0, 2, "true", "01", -1]


def test_texts_are_kept_as_found(file) -> None:
    assert read(file("d.csv", 'text,label\n"  A\tfilm ",0\n')).texts == ["  A\tfilm "]


@pytest.mark.parametrize("content", ["text\na\nb\n", "text,label\na,\nb,1\n"])
def test_labels_may_be_missing_where_not_required(file, content: str) -> None:
    examples = read(file("d.csv", content), require_labels=False)
    assert examples.labels is None
    assert examples.texts == ["a", "b"]


def test_labels_are_read_where_not_required_but_there(file) -> None:
    assert read(file("d.csv", "text,label\na,0\nb,1\n"), require_labels=False).labels == ["0", "1"]


def test_a_home_folder_is_expanded(file, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file("d.csv", CONTENT["data.csv"])
    monkeypatch.setenv("HOME", str(tmp_path))
    assert len(read("~/d.csv")) == 2


def test_missing_labels_are_named(file, refusal) -> None:
    assert refusal(file("d.csv", "text,label\na,0\nb, \n")) == (
        "d.csv, line 3: 'label' is empty; give the row a label or remove it"
    )
    assert "d.jsonl, line 2: 'label' is empty" in refusal(
        file("d.jsonl", '{"text": "a", "label": 1}\n{"text": "b"}')
    )
    assert "row 1: 'label' is empty" in refusal(file("d.json", '[{"text": "a", "label": NaN}]'))


def test_labels_of_other_kinds_are_named(file, refusal) -> None:
    for label, what in (("1.5", "a number ('1.5')"), ("[1]", "a list ('[1]')"), ("{}", "an object ('{}')")):
        message = refusal(file("d.jsonl", f'{{"text": "a", "label": {label}}}'))
        assert message == f"d.jsonl, line 1: 'label' is {what}; a label is an integer or a string"


def test_empty_texts_are_named(file, refusal) -> None:
    message = "line 3: 'text' is empty; give it a text or remove the row"
    assert refusal(file("d.csv", 'text,label\na,0\n" ",1\n')) == f"d.csv, {message}"
    assert "line 1: 'sentence2' is empty" in refusal(
        file("d.jsonl", '{"sentence1": "a", "sentence2": null, "label": 0}')
    )


def test_texts_that_are_no_text_are_named(file, refusal) -> None:
    message = refusal(file("d.jsonl", '{"text": "a", "label": 0}\n{"text": 5, "label": 1}'))
    assert message == "d.jsonl, line 2: 'text' is a number ('5'), not text; name another column"


def test_half_a_character_is_named(file, refusal) -> None:
    message = refusal(
        file("d.jsonl", r'{"text": "\ud83d\ude00", "label": 0}' + "\n" + r'{"text": "\ud83d", "label": 1}')
    )
    assert message.startswith("d.jsonl, line 2: 'text' has half a surrogate pair")


def test_a_missing_file_is_named_with_the_nearest(file, refusal, tmp_path: Path) -> None:
    file("train.csv", CONTENT["data.csv"])
    assert refusal(tmp_path / "trian.csv").endswith("trian.csv; did you mean 'train.csv'?")
    assert "there is no folder" in refusal(tmp_path / "other" / "train.csv")
    with pytest.raises(InputError, match=r"there is no file reviews\.CSV"):
        read("reviews.CSV")
    with pytest.raises(InputError, match=r"there is no file trian\.csv"):
        splits("trian.csv")


def test_other_formats_are_refused(file, refusal) -> None:
    formats = "isn't read; save it as .csv, .tsv, .jsonl, .json or .parquet"
    assert refusal(file("d.txt", "5 How far ?")) == f"d.txt: .txt {formats}"
    assert refusal(file("d", "5 How far ?")) == f"d: a file without a suffix {formats}"


def test_a_file_has_no_splits(file, refusal) -> None:
    path = file("d.csv", CONTENT["data.csv"])
    assert splits(path) == ()
    assert "has no split 'test'" in refusal(path, split="test")


def test_reading_loads_no_heavy_library(file) -> None:
    path = file("d.csv", CONTENT["data.csv"])
    heavy = "{'torch', 'numpy', 'pandas', 'pyarrow', 'datasets', 'transformers'}"
    code = (
        "import sys, types\n"
        f"package = types.ModuleType('sparring'); package.__path__ = [{str(PACKAGE)!r}]\n"
        "sys.modules['sparring'] = package  # without what the package itself imports\n"
        "from sparring.data import read, split\n"
        f"read({str(path)!r}); print({heavy} & set(sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "set()"
