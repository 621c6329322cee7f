from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from sparring.cli.folder import RunFolder
from sparring.data import read
from tests.cli.conftest import reviews, write

QUICK = "--radii 0.1 0.5 --attack-steps 2"


def results(folder):
    return json.loads((Path(folder) / "evaluation.json").read_text(encoding="utf-8"))


def rows(path):
    return [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]


def test_an_evaluation_says_how_accurate_and_how_robust(trained, sparring):
    done = sparring(f"evaluate --model {trained} {QUICK} --output found")
    assert (done.status, done.err) == (0, "")
    found = results("found")
    known = found["models"]["freelb"]
    assert known["evaluation"]["examples"] == 10  # the test data that its run set apart
    trained_to = json.loads((trained / "results.json").read_text(encoding="utf-8"))
    assert known["evaluation"]["accuracy"] == trained_to["metrics"]["test"]["accuracy"]
    assert known["evaluation"]["unit"] == trained_to["unit"]
    assert known["training"] == trained_to["training"]
    assert [point["radius"] for point in known["evaluation"]["under_attack"]] == [0.0, 0.1, 0.5]
    assert found["data"]["sha256"] == trained_to["data"]["sha256"]["test"]
    assert found["arguments"]["attack_steps"] == 2
    assert {"versions", "commits", "machine", "settings"} <= set(found)
    tables = [line.split() for line in done.out.splitlines()]
    assert ["under", "attack", "at", "0", "0.1", "0.5"] in tables
    points = [f"{point['accuracy']:.3f}" for point in known["evaluation"]["under_attack"]]
    assert ["freelb", *points] in tables
    assert ["chance", "0.500", "0.500", "0.500"] in tables
    assert any(line[:2] == ["random", "noise"] for line in tables)


def test_every_example_has_its_answers_and_there_is_a_plot(trained, sparring):
    sparring(f"evaluate --model {trained} {QUICK} --output found --limit 6")
    answers = rows("found/freelb.jsonl")
    assert [answer["index"] for answer in answers] == list(range(6))
    assert set(answers[0]["under_attack"]) == {"0", "0.1", "0.5"}
    assert Path("found/robustness.png").read_bytes().startswith(b"\x89PNG")
    assert "chance" in Path("found/robustness.svg").read_text(encoding="utf-8")
    right = sum(answer["label"] == answer["prediction"] for answer in answers)
    assert results("found")["models"]["freelb"]["evaluation"]["accuracy"] == right / 6


def test_answers_are_in_the_order_of_the_data(trained, sparring, tmp_path):
    texts = reviews(12, seed=7)
    write(tmp_path / "new.csv", texts)
    assert (
        sparring(f"evaluate --model {trained} --data new.csv {QUICK} --batch-size 5 --output found").status
        == 0
    )
    answers = rows("found/freelb.jsonl")
    assert [("negative", "positive")[answer["label"]] for answer in answers] == [label for _, label in texts]
    assert [answer["hash"] for answer in answers] == read(tmp_path / "new.csv").hashes()


def test_texts_that_were_trained_on_are_told(trained, data, sparring):
    done = sparring(f"evaluate --model {trained} --data {data} {QUICK} --output found")
    assert done.status == 0
    assert done.err.startswith("sparring: warning: 80 of 100 evaluation texts (80.0%) ")
    assert "in the training data" in done.err
    assert len(done.err.splitlines()) == 1
    assert results("found")["models"]["freelb"]["texts_trained_on"] == 80


def test_other_texts_are_not(trained, sparring, tmp_path):
    write(tmp_path / "new.csv", reviews(12, seed=7))
    done = sparring(f"evaluate --model {trained} --data new.csv {QUICK} --output found")
    assert (done.status, done.err) == (0, "")
    assert "Data       new.csv: 12 examples" in done.out


def test_a_model_that_was_not_trained_here_is_evaluated_with_a_warning(trained, data, sparring, tmp_path):
    shutil.copytree(
        trained, "plain", ignore=shutil.ignore_patterns("config.yaml", "results.json", "checkpoints")
    )
    done = sparring(f"evaluate --model plain --data {data} {QUICK} --max-length 16")
    assert done.status == 0
    assert done.err == (
        "sparring: warning: `sparring train` didn't make this model, so its training texts aren't known, and "
        "radii are in its own unit, which differs from that of another model\n"
    )
    assert (tmp_path / "plain" / "evaluation" / "evaluation.json").is_file()


def test_models_of_one_base_are_compared_in_one_unit(trained, short, sparring):
    assert sparring(f"train {short} --method plain --seed 5 --output plain").status == 0
    own = json.loads(RunFolder("plain").results.read_text(encoding="utf-8"))["unit"]
    done = sparring(f"evaluate --model {trained} plain {QUICK} --output found")
    assert (done.status, done.err) == (0, "")
    models = results("found")["models"]
    assert list(models) == ["freelb", "plain"]
    units = {one["evaluation"]["unit"] for one in models.values()}
    assert units == {json.loads((trained / "results.json").read_text(encoding="utf-8"))["unit"]}
    assert own not in units
    assert {path.name for path in Path("found").iterdir()} == {
        *("freelb.jsonl", "plain.jsonl", "evaluation.json", "robustness.png", "robustness.svg")
    }
    lines = [line.split() for line in done.out.splitlines()]
    assert next(line[-2:] for line in lines if line[:1] == ["plain"]) == ["20", "full"]


def test_the_attack_is_as_asked(trained, sparring):
    flags = "--norm linf --over token --attack-restarts 2 --attack-step-size 0.01 --seed 4"
    sparring(f"evaluate --model {trained} {QUICK} {flags} --output found")
    attack = results("found")["models"]["freelb"]["evaluation"]["attack"]
    assert "Linf over each token, 2 steps of 0.01, 2 restarts, seed 4" in attack


def test_another_evaluation_is_not_replaced_unasked(trained, refused, sparring, tmp_path):
    line = f"evaluate --model {trained} {QUICK} --output found"
    assert sparring(line).status == 0
    assert refused(line) == (
        "found holds another evaluation: choose another --output, or replace it by --overwrite"
    )
    assert sparring(f"{line} --limit 4 --overwrite").status == 0
    assert results("found")["models"]["freelb"]["evaluation"]["examples"] == 4
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").touch()
    assert refused(f"evaluate --model {trained} --output mine --overwrite") == (
        "mine is not empty, and holds no evaluation: choose another --output"
    )
    shutil.copytree(trained, "run")
    assert refused("evaluate --model run --output run --overwrite") == (
        "run is not empty, and holds no evaluation: choose another --output"
    )


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--radii -1", "radii is -1.0, but must be 0 or more"),
        ("--limit 0", "limit is 0, but must be 1 or more"),
        ("--batch-size 0", "batch_size is 0, but must be 1 or more"),
        ("--attack-steps 0", "steps is 0, but must be 1 or more"),
        ("--attack-restarts 0", "restarts is 0, but must be 1 or more"),
        ("--attack-step-size 0", "step_size is 0.0, but must be more than 0"),
    ],
)
def test_numbers_that_make_no_sense_are_refused(flags, message, trained, refused):
    assert refused(f"evaluate --model {trained} {flags} --output found") == message


def test_a_model_twice_or_none_is_refused(trained, refused):
    assert refused(f"evaluate --model {trained} {trained} {trained}") == f"--model {trained} is given twice"
    message = "there is no run in runs/default yet: `sparring train` makes one, or give --model"
    assert refused("evaluate") == message
    assert refused("predict --text x") == message


@pytest.mark.parametrize(
    "method", ["--method.unit 5", "--method.site.kind output --method.site.module bert.encoder.layer.0"]
)
def test_radii_are_in_norms_of_word_embeddings_whatever_the_methods_unit(trained, short, sparring, method):
    assert sparring(f"train {short} --epochs 1 --method freelb {method} --output other").status == 0
    assert json.loads(RunFolder("other").results.read_text(encoding="utf-8"))["unit"] is None
    done = sparring(f"evaluate --model other {trained} {QUICK} --output found")
    assert done.status == 0
    models = json.loads(Path("found/evaluation.json").read_text(encoding="utf-8"))["models"]
    ours = json.loads((trained / "results.json").read_text(encoding="utf-8"))["unit"]
    for one in models.values():
        assert one["evaluation"]["unit"] == pytest.approx(ours, rel=0.2)
