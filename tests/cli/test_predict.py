from __future__ import annotations

import json
from pathlib import Path

from sparring.data import read
from tests.cli.conftest import reviews, write


def test_texts_given_are_labelled_in_a_table(trained, sparring):
    done = sparring(
        f"predict --model {trained} --text", "a witty film", "the cast is dull, and so is the plot"
    )
    assert (done.status, done.err) == (0, "")
    header, *lines = done.out.splitlines()
    assert header.split() == ["label", "probability", "text"]
    assert [line.split(maxsplit=2)[0] for line in lines] == ["positive", "negative"]
    assert [line.split(maxsplit=2)[2] for line in lines] == [
        "a witty film",
        "the cast is dull, and so is the plot",
    ]
    assert all(0.5 < float(line.split()[1]) <= 1 for line in lines)


def test_data_are_labelled_line_by_line(trained, data, sparring):
    done = sparring(f"predict --model {trained} --data {data}")
    assert (done.status, done.err) == (0, "")
    answers = [json.loads(line) for line in done.out.splitlines()]
    known = read(data)
    assert [answer["text"] for answer in answers] == known.texts
    right = [answer["label"] == label for answer, label in zip(answers, known.labels, strict=True)]
    assert sum(right) > 90
    first = answers[0]
    assert set(first["probabilities"]) == {"negative", "positive"}
    assert (
        first["probability"] == first["probabilities"][first["label"]] == max(first["probabilities"].values())
    )


def test_data_need_no_labels_and_answers_go_to_a_file(trained, sparring, tmp_path):
    write(tmp_path / "new.csv", [(text,) for text, _ in reviews(5, seed=3)], header=("text",))
    done = sparring(f"predict --model {trained} --data new.csv --output answers.jsonl")
    assert (done.status, done.out, done.err) == (0, "Saved      answers.jsonl: 5 answers\n", "")
    assert len(Path("answers.jsonl").read_text(encoding="utf-8").splitlines()) == 5


def test_pairs_are_labelled(trained, sparring):
    done = sparring(
        f"predict --model {trained} --text", "a film", "--pair", "a witty plot", "--output", "a.jsonl"
    )
    assert done.status == 0
    (answer,) = (json.loads(line) for line in Path("a.jsonl").read_text(encoding="utf-8").splitlines())
    assert (answer["text"], answer["pair"]) == ("a film", "a witty plot")
    done = sparring(f"predict --model {trained} --text", "a film", "--pair", "a witty plot")
    assert done.out.splitlines()[0].split() == ["label", "probability", "text", "pair"]
    assert done.out.splitlines()[1].endswith("a film   a witty plot")


def test_texts_are_cut_as_in_training_or_as_asked(trained, sparring):
    long = "the film " * 20 + "dull"
    probability = {
        length: json.loads(line)["probabilities"]
        for length in ("16", "64")
        for line in _answers(sparring, trained, long, f"--max-length {length}")
    }
    (own,) = (json.loads(line)["probabilities"] for line in _answers(sparring, trained, long, ""))
    assert own == probability["16"]
    assert own != probability["64"]


def _answers(sparring, trained, text, flags):
    assert sparring(f"predict --model {trained} {flags} --output a.jsonl --text", text).status == 0
    return Path("a.jsonl").read_text(encoding="utf-8").splitlines()


def test_what_contradicts_itself_is_refused(trained, data, refused):
    line = f"predict --model {trained}"
    assert refused(f"{line} --text a --data {data}") == (
        "--text and --data both say what to label: give one of them"
    )
    assert refused(f"{line} --pair a") == "--pair gives the second texts: give the first ones as --text"
    assert refused(f"{line} --text a b --pair a") == "2 texts as --text, but 1 second texts as --pair"
    assert refused(line, "--text", " ") == "a text is empty: give every --text and --pair a word"
    assert refused(f"{line} --data {data} --output {data}") == f"--output {data} would replace the data"
    assert refused(f"{line} --text a --batch-size 0") == "batch_size is 0, but must be 1 or more"
