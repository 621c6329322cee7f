"""A tiny model, tiny data, and the commands run in-process."""

from __future__ import annotations

import csv
import gc
import os
import random
from typing import NamedTuple
from unittest.mock import patch

import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

from sparring.cli import main

GOOD, BAD = ("fine", "moving", "gripping", "witty"), ("dull", "stale", "clumsy", "weak")
PLAIN = ("a", "film", "plot", "and", "the", "cast", "is", "with", "music")
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")


class Done(NamedTuple):
    status: int
    out: str
    err: str


@pytest.fixture(scope="session", autouse=True)
def _quick_collection():
    """Each Trainer collects garbage; it needn't look through all that the imports have left."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    """Relative paths, and the default run, are in a folder of the test's own."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture(autouse=True)
def _own_environment():
    """The Trainer leaves variables in the environment, as some versions do for bf16."""
    with patch.dict(os.environ):
        yield


@pytest.fixture
def sparring(capsys):
    """Runs a command line: `sparring("train --epochs 1", ...)`; what has blanks in it follows apart."""

    def run(line, *more):
        capsys.readouterr()
        status = main([*line.split(), *map(str, more)])
        out, err = capsys.readouterr()
        return Done(status, out, err)

    return run


@pytest.fixture
def refused(sparring):
    """Runs a command line that must be refused, with status 2 and one line on standard error: its text."""

    def run(line, *more):
        done = sparring(line, *more)
        assert done.status == 2
        assert done.err.startswith("sparring: error: ")
        assert done.err.endswith("\n")
        assert len(done.err.splitlines()) == 1
        return done.err.removeprefix("sparring: error: ").rstrip("\n")

    return run


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    """The folder of an encoder without a head, and its tokenizer."""
    folder = tmp_path_factory.mktemp("models") / "tiny"
    words = [*SPECIAL, *GOOD, *BAD, *PLAIN]
    tokenizer = Tokenizer(WordLevel({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        model_max_length=128,
    ).save_pretrained(folder)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(words),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=128,
        pad_token_id=0,
        initializer_range=0.2,
    )
    encoder = BertModel(config)
    with torch.no_grad():  # pretrained, as it were: it knows praise from blame
        direction = torch.randn(16)
        for word, sign in (*((word, 1) for word in GOOD), *((word, -1) for word in BAD)):
            encoder.embeddings.word_embeddings.weight[words.index(word)] += sign * direction
    encoder.save_pretrained(folder)
    return folder


def reviews(count, seed=0):
    """Distinct texts, whose label a single word decides."""
    draw, found = random.Random(seed), {}
    while len(found) < count:
        words = draw.choices(PLAIN, k=draw.randint(3, 8))
        label = "positive" if len(found) % 2 else "negative"
        words.insert(draw.randrange(len(words)), draw.choice(GOOD if label == "positive" else BAD))
        found[" ".join(words)] = label
    return list(found.items())


def write(path, rows, header=("text", "label")):
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return path


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    """A csv of 100 reviews: 80 to train on."""
    return write(tmp_path_factory.mktemp("data") / "reviews.csv", reviews(100))


@pytest.fixture(scope="session")
def short(model, data):
    """The flags of a short training."""
    rates = "--learning-rate 1e-2 --warmup 0"
    return f"--model {model} --data {data} --batch-size 8 --epochs 2 {rates} --max-length 16"


@pytest.fixture(scope="session")
def trained(short, tmp_path_factory):
    """The folder of a run that has ended. Not to be changed."""
    folder = tmp_path_factory.mktemp("runs") / "freelb"
    assert main(f"train {short} --output {folder}".split()) == 0
    return folder
