"""Each kind of bad input: exit status 2, and one line that says what was wrong, where, and what to do."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from transformers import AutoTokenizer, ViTConfig, ViTForImageClassification

from tests.cli.conftest import reviews, write


@pytest.fixture
def file(tmp_path):
    def make(content, name="mine.csv"):
        (tmp_path / name).write_bytes(content)
        return name

    return make


@pytest.fixture
def training(refused, model):
    """What `sparring train` says of data that it refuses."""

    def message(data, *more):
        return refused(f"train --model {model} --output run --data", data, *more)

    return message


def test_a_missing_file_names_what_is_near(training, file):
    file(b"", "reviews.csv")
    message = training("review.csv")
    assert message == "there is no file review.csv; did you mean 'reviews.csv'?"


@pytest.mark.parametrize("line", ["evaluate --model {} --data no.csv", "predict --model {} --data no.csv"])
def test_a_missing_file_is_refused_by_every_command(line, trained, refused):
    assert "no.csv" in refused(line.format(trained))


def test_a_missing_column_names_the_nearest_and_the_flag(training, file):
    name = file(b"txt,verdict\nfine,1\ndull,0\n")
    message = training(name)
    assert "mine.csv has no column that looks like the text" in message
    assert "its columns are 'txt', 'verdict'" in message
    assert message.endswith("or say which it is (--text-column)")
    message = training(name, "--text-column", "text", "--label-column", "verdict")
    assert message == ("mine.csv has no column 'text': its columns are 'txt', 'verdict'; did you mean 'txt'?")
    message = training(name, "--text-column", "txt")
    assert "looks like the label" in message
    assert "say which it is (--label-column)" in message


def test_an_empty_file(training, file):
    assert training(file(b"")) == "mine.csv is empty: it needs column names and rows"
    assert training(file(b"text,label\n")).startswith("mine.csv has ")


def test_a_broken_csv_row_has_its_line_number(training, file):
    message = training(file(b"text,label\nfine film,1\ndull,film,0\nweak,0\n"))
    assert message.startswith("mine.csv, line 3: 3 fields where the first line has 2")
    message = training(file(b'text,label\nfine,1\n"dull,0\n'))
    assert message.startswith("mine.csv, line 3: a quote that starts a field is never closed")


def test_an_empty_text_or_label_has_its_line_number(training, file):
    assert "mine.csv, line 3" in training(file(b"text,label\nfine,1\n ,0\n"))
    assert "mine.csv, line 2" in training(file(b"text,label\nfine,\ndull,0\n"))


def test_an_unreadable_encoding(training, file):
    message = training(file("text,label\nchef d'œuvre,1\ngâché,0\n".encode("cp1252")))
    assert message.startswith("mine.csv, line 2: byte 0x9c")
    assert message.endswith("save the file as UTF-8")


def test_one_class_only(training, tmp_path):
    rows = [(text, "positive") for text, _ in reviews(20)]
    message = training(write(tmp_path / "mine.csv", rows))
    assert message.endswith("mine.csv has one class only ('positive'): a classifier needs two")


def test_too_few_texts_to_split(training, tmp_path):
    assert "has too few texts to split" in training(write(tmp_path / "mine.csv", reviews(3)))


@pytest.mark.parametrize("part", ["validation", "test"])
def test_a_label_that_training_does_not_know(part, training, data, tmp_path):
    write(tmp_path / "other.csv", [*reviews(4, seed=3), ("a film", "possitive")])
    message = training(data, f"--{part}", "other.csv")
    assert message.startswith("other.csv, line 6: the model doesn't know the label 'possitive'")
    assert "'positive'" in message


def test_an_unknown_label_at_evaluation(trained, refused, tmp_path):
    write(tmp_path / "other.csv", [("a film", "positive"), ("a plot", "mixed")])
    message = refused(f"evaluate --model {trained} --data other.csv --output found")
    assert message.startswith("other.csv, line 3: the model doesn't know the label 'mixed'")
    assert not (tmp_path / "found").exists()


@pytest.mark.parametrize("command", ["train", "evaluate", "predict"])
def test_a_model_that_is_not_there(command, data, refused):
    message = refused(f"{command} --model models/none/tiny --data {data} --output found")
    assert "models/none/tiny" in message


@pytest.mark.parametrize("command", ["train", "evaluate", "predict"])
def test_a_model_folder_without_weights(command, model, data, refused, tmp_path):
    shutil.copytree(model, tmp_path / "bare", ignore=shutil.ignore_patterns("*.safetensors"))
    assert refused(f"{command} --model bare --data {data} --output found") == (
        "bare holds a model's config.json, but no weights: model.safetensors is missing"
    )


@pytest.mark.parametrize("command", ["evaluate", "predict"])
def test_a_model_without_a_trained_head(command, model, data, refused):
    message = refused(f"{command} --model {model} --data {data} --output found")
    assert "has no trained classification head" in message


def test_a_model_without_word_embeddings(model, data, refused, tmp_path):
    config = ViTConfig(
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        image_size=16,
        patch_size=8,
    )
    ViTForImageClassification(config).save_pretrained(tmp_path / "images")
    AutoTokenizer.from_pretrained(model).save_pretrained(tmp_path / "images")
    message = refused(f"train --model images --data {data} --output run --max-length 16")
    assert "images" in message
    assert not (tmp_path / "run").exists()


def test_a_model_whose_embeddings_cannot_be_found(short, refused, monkeypatch):
    from transformers import BertModel

    def none(_):
        raise NotImplementedError

    monkeypatch.setattr(BertModel, "get_input_embeddings", none)
    message = refused(f"train {short} --output run")
    assert "has several embeddings" in message
    assert "say where to perturb, --method.site.kind output --method.site.module NAME" in message


def test_a_site_that_is_not_there_names_the_nearest(short, refused):
    flags = "--method.site.kind output --method.site.module bert.encoder.layers.0"
    message = refused(f"train {short} --output run {flags}")
    assert message == (
        "BertForSequenceClassification has no module 'bert.encoder.layers.0': did you mean "
        "'bert.encoder.layer.0'?"
    )


def test_a_run_that_never_got_going_leaves_the_folder_as_it_was(short, refused, sparring, tmp_path):
    flags = "--method.site.kind weight --method.site.name no.weight"
    refused(f"train {short} --output run {flags}")
    assert not (tmp_path / "run").exists()
    assert sparring(f"train {short} --epochs 1 --output run").status == 0
    refused(f"train {short} --output run --overwrite {flags}")
    assert not (tmp_path / "run").exists()


def test_data_that_are_no_table(training, file):
    assert ".txt" in training(file(b"text", "mine.txt"))


def test_a_part_of_a_file_or_of_the_default(trained, data, refused):
    assert "has no split 'dev'" in refused(
        f"evaluate --model {trained} --data {data} --split dev --output found"
    )
    message = refused(f"predict --model {trained} --split dev")
    assert message == "--split dev is of a data set: give one as --data"


@pytest.mark.parametrize("command", ["evaluate", "predict --text fine"])
def test_damaged_results_are_named(trained, refused, command):
    shutil.copytree(trained, "run")
    Path("run/results.json").write_text('{"unit": 1.', encoding="utf-8")
    message = refused(f"{command} --model run")
    assert message.startswith("run/results.json is damaged (")
    assert message.endswith("): take it away, or train again")
