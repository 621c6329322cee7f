"""Every Python block of docs/loops.md runs, in its order; Accelerate's gives what the plain loop gives."""

from __future__ import annotations

import re
from math import inf
from pathlib import Path

import pytest
import torch
from torch.optim import AdamW

from sparring import FreeLB
from sparring.loops import fit
from tests.loops.tiny import classifier, collate, examples, loader, same, weights

PAGE = Path(__file__).parents[2] / "docs" / "loops.md"
CHAPTERS = {
    title: re.findall(r"^```python\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)
    for title, text in re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.DOTALL | re.MULTILINE)
}


@pytest.fixture
def names(tmp_path, monkeypatch):
    """What the page takes as given."""
    monkeypatch.chdir(tmp_path)
    return {
        "__name__": "page",
        "model": classifier(),
        "loader": loader(8),
        "train_data": examples(8),
        "eval_data": examples(4),
        "collate": collate,
    }


def run(chapter, names):
    for number, block in enumerate(CHAPTERS[chapter], start=1):
        exec(compile(block, f"{PAGE.name}, {chapter}, block {number}", "exec"), names)


def test_the_page_has_the_chapters_that_are_run():
    assert [title for title, blocks in CHAPTERS.items() if blocks] == [
        "Your own loop",
        "`fit`",
        "Hugging Face's Trainer",
        "Your subclass of the Trainer",
        "Accelerate",
        "Several processes",
        "Models that return no loss",
    ]


@pytest.mark.filterwarnings("ignore:'pin_memory' argument is set as true:UserWarning")
def test_every_block_runs_and_trains(names):
    for chapter, blocks in CHAPTERS.items():
        model, before = names["model"], weights(names["model"])
        run(chapter, names)
        trained = not same(weights(model), before) or names["model"] is not model
        assert trained == bool(blocks)


def test_accelerate_gives_what_the_plain_loop_gives_bit_for_bit(names):
    model, method = classifier(dropout=0), FreeLB()  # its loaders draw from the global stream at other times
    optimizer = AdamW(model.parameters(), lr=5e-5)
    fit(model, loader(8), method, optimizer, clip=inf)
    fit(model, loader(8), method, optimizer, clip=inf, accumulate=2)
    names |= {"FreeLB": FreeLB, "AdamW": AdamW, "model": classifier(dropout=0)}
    run("Accelerate", names)
    assert same(weights(names["model"]), weights(model))


def test_the_accumulating_loop_gives_what_fit_gives_bit_for_bit(names):
    model, method = classifier(), FreeLB()
    optimizer = AdamW(model.parameters(), lr=5e-5)
    torch.manual_seed(1)
    fit(model, loader(7), method, optimizer, clip=inf)
    fit(model, loader(7), method, optimizer, clip=inf, accumulate=4)
    names["loader"] = loader(7)  # its last batch is smaller
    torch.manual_seed(1)
    run("Your own loop", names)
    assert same(weights(names["model"]), weights(model))
