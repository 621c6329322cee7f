from __future__ import annotations

import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
import yaml
from safetensors.torch import load_file
from transformers import AutoModelForSequenceClassification, AutoTokenizer, Trainer, pipeline

import sparring as package
from sparring.cli import watch
from sparring.data import read
from tests.cli.conftest import reviews, write


def results(folder):
    return json.loads((Path(folder) / "results.json").read_text(encoding="utf-8"))


def weights(folder):
    return load_file(Path(folder) / "model.safetensors")


def same(one, other):
    one, other = weights(one), weights(other)
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


# -- what a run leaves ---------------------------------------------------------------------------------------


def test_a_run_learns_and_says_what_it_did(short, sparring, tmp_path):
    done = sparring(f"train {short} --method fgm --output run")
    assert (done.status, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0] == "Training with FGM"
    text = " ".join(done.out.split())
    assert "train 80, validation 10, test 10 (split by a hash of the text, seed 0" in text
    assert "Labels negative 50.0%, positive 50.0%" in text
    assert "a BertForSequenceClassification of 0.0 M parameters" in text
    assert "on embeddings.word_embeddings" in text or "on bert.embeddings.word_embeddings" in text
    assert "passes per batch: 2 full" in text
    epochs = [line for line in lines if line.startswith("epoch ")]
    assert [line.split()[1] for line in epochs] == ["1/2", "2/2"]
    assert all("loss" in line and "adversarial" in line and "accuracy" in line for line in epochs)
    assert "20 steps, 40 full passes (2 full a batch)" in text
    assert "sparring evaluate --model run" in text
    found = results("run")
    assert found["metrics"]["validation"]["accuracy"] > 0.8
    assert f"{found['metrics']['test']['accuracy']:.3f}" in text


def test_the_results_say_where_they_came_from(trained, data, model):
    found = results(trained)
    assert set(found["metrics"]) == {"validation", "test"}
    assert set(found["metrics"]["test"]) == {"accuracy", "macro_f1", "calibration_error"}
    assert found["labels"] == ["negative", "positive"]
    assert found["seed"] == 0
    assert found["arguments"]["data"] == str(data)
    assert found["arguments"]["method"]["ball"]["radius"] == "inf"  # JSON has no such number
    assert found["data"]["counts"] == {"train": 80, "validation": 10, "test": 10}
    assert len(found["data"]["sha256"]["train"]) == 64
    assert {"sparring", "python", "torch", "transformers"} <= set(found["versions"])
    assert found["machine"]["devices"]
    assert found["peak_memory"]["process"] > 10**7
    assert found["training"]["seconds"] > 0
    assert found["training"]["steps"] == 20
    assert found["training"]["passes"] == {"full": 60, "ascent": 0, "forward": 0}
    assert found["training"]["resumed_at_step"] is None
    assert [set(epoch) for epoch in found["training"]["epochs"]] == [{"accuracy", "macro_f1", "loss"}] * 2
    matrix = load_file(model / "model.safetensors")["embeddings.word_embeddings.weight"]
    tokens = AutoTokenizer.from_pretrained(model)(read(data).texts)["input_ids"]
    norms = matrix[torch.tensor([token for text in tokens for token in text])].norm(dim=1)
    assert found["unit"] == pytest.approx(float(norms.mean()), rel=0.1)  # measured on the first batch


def test_the_training_texts_are_kept_as_hashes(trained, data):
    hashes = (trained / "train_hashes.txt").read_text(encoding="utf-8").split()
    assert len(hashes) == 80
    assert set(hashes) < set(read(data).hashes())


def test_the_folder_is_a_plain_hugging_face_model(trained):
    model = AutoModelForSequenceClassification.from_pretrained(trained)
    assert type(model).__name__ == "BertForSequenceClassification"
    assert model.config.id2label == {0: "negative", 1: "positive"}
    assert not any("method" in name for name in weights(trained))
    classify = pipeline("text-classification", str(trained))
    assert classify("a witty film")[0]["label"] == "positive"
    assert classify("a dull film")[0]["label"] == "negative"
    state = torch.load(trained / "method.pt", weights_only=True)
    assert state["_extra_state"]["steps_done"] == pytest.approx(20)


def test_the_configuration_makes_the_same_run_again(trained, sparring):
    config = yaml.safe_load((trained / "config.yaml").read_text(encoding="utf-8"))
    assert config["method"]["name"] == "freelb"
    assert config["method"]["ball"]["radius"] == math.inf
    done = sparring(f"train --config {trained}/config.yaml --output again")
    assert done.status == 0
    assert same("again", trained)
    again = yaml.safe_load(Path("again/config.yaml").read_text(encoding="utf-8"))
    assert again == {**config, "output": "again"}


def test_the_seed_decides_the_weights(short, trained, sparring):
    assert sparring(f"train {short} --seed 1 --output other").status == 0
    assert not same("other", trained)


@pytest.mark.parametrize(
    ("flags", "passes"),
    [
        ("--method plain", {"full": 20}),
        ("--method pgd --method.steps 2", {"full": 20, "ascent": 40}),
        ("--method freelb --start-step 15", {"full": 15 + 3 * 5}),
        ("--method freelb --every 4", {"full": 15 + 3 * 5}),
        ("--method fgm --accumulate 3 --every 2", {"full": 20 + 12}),  # steps of 3, 3, 3 and 1 batches
        ("--method plain --train-size 17 --epochs 1", {"full": 3}),
        ("--method plain --epochs 1 --bf16", {"full": 10}),
    ],
)
def test_the_passes_are_counted(flags, passes, short, sparring):
    assert sparring(f"train {short} {flags} --output run").status == 0
    assert results("run")["training"]["passes"] == {"full": 0, "ascent": 0, "forward": 0, **passes}


def test_part_of_the_training_data_is_drawn_evenly(short, sparring):
    done = sparring(f"train {short} --train-size 20 --held-out-size 4 --epochs 1 --output run")
    assert "used of these: train 20, validation 4, test 4, each label in proportion" in done.out
    assert "Labels     negative 50.0%, positive 50.0%" in done.out
    assert results("run")["data"]["counts"] == {"train": 20, "validation": 4, "test": 4}


def test_validation_and_test_data_may_be_given(short, sparring, tmp_path):
    write(tmp_path / "v.csv", reviews(6, seed=1))
    write(tmp_path / "t.csv", reviews(8, seed=2))
    assert sparring(f"train {short} --epochs 1 --test t.csv --output one").status == 0
    found = results("one")["data"]
    assert found["counts"] == {"train": 90, "validation": 10, "test": 8}
    assert found["rule"].endswith(", test data as given")
    assert sparring(f"train {short} --epochs 1 --test t.csv --validation v.csv --output two").status == 0
    assert results("two")["data"]["counts"] == {"train": 100, "validation": 6, "test": 8}
    assert results("two")["data"]["rule"] == "as given"


def test_pairs_and_other_column_names_work(model, sparring, tmp_path):
    rows = [(i, text, "the plot", label) for i, (text, label) in enumerate(reviews(40))]
    write(tmp_path / "pairs.csv", rows, header=("id", "one", "two", "verdict"))
    line = f"train --model {model} --data pairs.csv --epochs 1 --batch-size 8 --max-length 32 --output run"
    assert sparring(f"{line} --text-column one --pair-column two --label-column verdict").status == 0
    assert results("run")["labels"] == ["negative", "positive"]


def test_the_best_epochs_model_can_be_kept(short, sparring):
    line = f"train {short} --epochs 3 --warmup 0.1"  # with which this model is best after the first epoch
    for select in ("best", "last"):
        assert sparring(f"{line} --select {select} --output {select}").status == 0
    epochs = [epoch["accuracy"] for epoch in results("best")["training"]["epochs"]]
    assert epochs[0] > epochs[-1]
    assert epochs == [epoch["accuracy"] for epoch in results("last")["training"]["epochs"]]
    assert results("best")["metrics"]["validation"]["accuracy"] == max(epochs)
    assert results("last")["metrics"]["validation"]["accuracy"] == epochs[-1]


# -- resuming ------------------------------------------------------------------------------------------------


class KilledError(Exception):
    pass


@contextmanager
def stopped(monkeypatch, step, error=KilledError):
    """A run that ends in the midst of this step."""
    show = watch.Watch.on_step_end

    def stop(self, args, state, control, **kwargs):
        if state.global_step == step:
            raise error
        show(self, args, state, control, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(watch.Watch, "on_step_end", stop)
        yield


@pytest.mark.parametrize(("step", "flags"), [(15, ""), (7, "--save-steps 4"), (3, "")])
def test_a_stopped_run_goes_on_and_ends_as_if_unbroken(step, flags, short, trained, sparring, monkeypatch):
    with stopped(monkeypatch, step), pytest.raises(KilledError):
        sparring(f"train {short} {flags} --output run")
    assert not Path("run/results.json").exists()
    done = sparring("train --resume --output run")
    assert (done.status, done.err) == (0, "")
    kept = {15: 10, 7: 4, 3: None}[step]
    begun = f"after step {kept} of 20" if kept else "from the beginning, for there is no complete checkpoint"
    assert f"Resumed    {begun}" in done.out
    found = results("run")
    assert found["training"]["resumed_at_step"] == kept
    assert same("run", trained)
    assert found["metrics"] == results(trained)["metrics"]
    assert found["training"]["epochs"] == results(trained)["training"]["epochs"]
    assert found["unit"] == results(trained)["unit"]


def test_ctrl_c_says_how_to_go_on(short, trained, sparring, monkeypatch):
    with stopped(monkeypatch, 15, KeyboardInterrupt):
        done = sparring(f"train {short} --output run")
    assert done.status == 130
    assert done.err == (
        "\nsparring: interrupted; step 10 is kept, "
        "`sparring train --resume --output run` goes on from there\n"
    )
    assert sparring("train --resume --output run").status == 0
    assert same("run", trained)
    with stopped(monkeypatch, 5, KeyboardInterrupt):
        done = sparring(f"train {short} --output early")
    assert "there was no checkpoint yet, `sparring train --resume --output early` begins anew" in done.err


def test_a_run_stopped_after_its_last_step_only_has_to_be_saved(short, trained, sparring, monkeypatch):
    from sparring.cli import training

    def fail(_):
        raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr(training, "save", fail)
        with pytest.raises(KilledError):
            sparring(f"train {short} --output run")
    assert sparring("train --resume --output run").status == 0
    assert same("run", trained)


@pytest.mark.slow
def test_a_killed_process_goes_on_and_ends_as_if_unbroken(short, trained, sparring):
    source = str(Path(package.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": source, "OMP_NUM_THREADS": "1"}
    command = [
        sys.executable,
        "-m",
        "sparring",
        "train",
        *short.split(),
        "--save-steps",
        "1",
        "--output",
        "run",
    ]
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) as process:
        while not any(Path("run/checkpoints").glob("checkpoint-[6-9]/trainer_state.json")):
            assert process.poll() is None
            time.sleep(0.01)
        process.kill()
    assert process.returncode == -signal.SIGKILL
    assert not Path("run/results.json").exists()
    assert sparring("train --resume --output run").status == 0
    assert results("run")["training"]["resumed_at_step"] >= 5
    assert same("run", trained)


def test_an_ended_run_is_left_as_it_is(trained, sparring):
    before = (trained / "results.json").read_bytes()
    done = sparring(f"train --resume --output {trained}")
    assert (done.status, done.err) == (0, "")
    assert done.out == f"{trained} has ended already: see {trained}/results.json\n"
    assert (trained / "results.json").read_bytes() == before


@pytest.mark.parametrize(
    ("flags", "what"),
    [
        ("--learning-rate 1e-3", "learning_rate was 0.01 and is 0.001 now"),
        ("--method.steps 5", "method.steps was 3 and is 5 now"),
        ("--method pgd", "method.name was freelb and is pgd now"),
        ("--train-size 40", "train_size was not given and is 40 now"),
        ("--seed 1", "seed was 0 and is 1 now"),
    ],
)
def test_a_run_is_not_resumed_as_another(flags, what, short, refused, sparring, monkeypatch):
    with stopped(monkeypatch, 3), pytest.raises(KilledError):
        sparring(f"train {short} --output run")
    assert refused(f"train --resume --output run {flags}") == (
        f"cannot resume run: {what}; leave it as it was, or choose another --output"
    )


def test_a_run_is_not_resumed_on_other_texts(short, data, refused, sparring, monkeypatch, tmp_path):
    shutil.copy(data, tmp_path / "mine.csv")
    line = short.replace(str(data), "mine.csv")
    with stopped(monkeypatch, 3), pytest.raises(KilledError):
        sparring(f"train {line} --output run")
    write(tmp_path / "mine.csv", reviews(100, seed=1))
    assert refused("train --resume --output run") == (
        "cannot resume run: the training texts have changed; choose another --output"
    )


def test_there_must_be_a_run_to_resume(refused, tmp_path):
    message = "run holds no run to resume: leave out --resume to start one"
    assert refused("train --resume --output run") == message
    (tmp_path / "run").mkdir()
    assert refused("train --resume --output run") == message


# -- the output folder ---------------------------------------------------------------------------------------


def test_a_folder_with_another_run_is_refused_unless_it_is_to_be_replaced(short, trained, refused, sparring):
    shutil.copytree(trained, "run")
    Path("run/evaluation").mkdir()
    Path("run/notes.txt").touch()
    assert refused(f"train {short} --output run") == (
        "run holds another run: choose another --output, go on with it by --resume, or replace it by "
        "--overwrite"
    )
    assert sparring(f"train {short} --method plain --epochs 1 --output run --overwrite").status == 0
    assert results("run")["training"]["passes"]["full"] == 10
    assert [path.name for path in Path("run/checkpoints").iterdir()] == ["checkpoint-10"]
    assert not Path("run/evaluation").exists()  # of the model that was there
    assert Path("run/notes.txt").exists()


def test_a_folder_with_other_files_is_never_replaced(short, refused, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").touch()
    message = "mine is not empty, and holds no run: choose another --output"
    assert refused(f"train {short} --output mine") == message
    assert refused(f"train {short} --output mine --overwrite") == message
    assert refused(f"train {short} --output mine/thesis.tex") == (
        "mine/thesis.tex is a file: give a folder as --output"
    )


def test_a_run_that_is_refused_leaves_no_folder(model, refused, tmp_path):
    refused(f"train --model {model} --data no.csv --output run")
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_at_a_checkpoint_keeps_the_one_before(short, trained, refused, sparring, monkeypatch):
    save = Trainer._save_optimizer_and_scheduler

    def full(self, folder):
        if self.state.global_step == 20:
            raise OSError(28, "No space left on device")
        save(self, folder)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_save_optimizer_and_scheduler", full)
        message = refused(f"train {short} --output run")
    assert message == (
        "cannot write run/checkpoints/checkpoint-20: No space left on device; free space and resume from "
        "run/checkpoints/checkpoint-10"
    )
    assert [path.name for path in Path("run/checkpoints").iterdir()] == ["checkpoint-10"]
    assert sparring("train --resume --output run").status == 0
    assert same("run", trained)


def test_a_full_disk_at_the_end_is_one_line_and_costs_nothing(short, trained, refused, sparring, monkeypatch):
    from transformers import PreTrainedModel

    save = PreTrainedModel.save_pretrained

    def full(self, folder, **kwargs):
        if str(folder) == "run":
            raise OSError(28, "No space left on device")
        save(self, folder, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(PreTrainedModel, "save_pretrained", full)
        message = refused(f"train {short} --output run")
    assert message == (
        "cannot write run: No space left on device; free space and run `sparring train --resume --output run`"
    )
    assert sparring("train --resume --output run").status == 0
    assert same("run", trained)


def test_ascent_steps_that_were_skipped_are_told(short, sparring, monkeypatch):
    from sparring.method import Method

    monkeypatch.setattr(Method, "read_figures", lambda self: self.skipped.fill_(3) and {})
    done = sparring(f"train {short} --epochs 1 --output run")
    assert done.err == "sparring: warning: 3 ascent steps were skipped: their gradients weren't finite\n"


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--epochs 0", "epochs is 0, but must be 1 or more"),
        ("--batch-size 0", "batch_size is 0, but must be 1 or more"),
        ("--accumulate 0", "accumulate is 0, but must be 1 or more"),
        ("--learning-rate 0", "learning_rate is 0.0, but must be more than 0"),
        ("--weight-decay -1", "weight_decay is -1.0, but must be 0 or more"),
        ("--warmup 1.5", "warmup is 1.5, but must be a share of the steps, from 0 to 1"),
        ("--seed -1", "seed is -1, but must be 0 or more"),
        ("--save-steps -1", "save_steps is -1, but must be 0 or more"),
        ("--train-size 0", "train_size is 0, but must be 1 or more"),
        ("--held-out-size 0", "held_out_size is 0, but must be 1 or more"),
        ("--start-step -1", "start_step is -1, but must be 0 or more"),
        ("--every 0", "every is 0, but must be 1 or more"),
        ("--method.steps -1", "steps is -1, but must be 1 or more"),
        ("--max-length 1", "max_length is 1, but for this model must be from 3 to 128 tokens"),
    ],
)
def test_numbers_that_make_no_sense_are_refused(flag, message, short, refused):
    assert refused(f"train {short} --output run {flag}") == message
    assert not Path("run").exists()


# -- accumulation --------------------------------------------------------------------------------------------


def test_accumulated_batches_train_on_the_gradient_of_the_one_big_batch(model, data, sparring):
    """Transformers' classifiers would have their micro-batches' means added, not averaged."""
    shutil.copytree(model, "still")
    config = json.loads(Path("still/config.json").read_text(encoding="utf-8"))
    still = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    Path("still/config.json").write_text(json.dumps(config | still), encoding="utf-8")
    first = []
    for batches in ("--batch-size 30", "--batch-size 16 --accumulate 2", "--batch-size 8 --accumulate 4"):
        sizes = (
            "--method.start 0 --method.unit 1"  # a unit is measured on the first batch, which differs here
        )
        flags = f"--model still --data {data} --method freelb {sizes} --epochs 1 --max-length 16"
        assert sparring(f"train {flags} --train-size 30 {batches} --output run --overwrite").status == 0
        (state,) = Path("run/checkpoints").glob("checkpoint-*/trainer_state.json")
        first.append(json.loads(state.read_text(encoding="utf-8"))["log_history"][0])
    for found in first[1:]:
        for figure in ("loss", "grad_norm"):
            assert found[figure] == pytest.approx(first[0][figure], rel=1e-4)
