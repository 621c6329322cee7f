from __future__ import annotations

import shutil
from contextlib import nullcontext
from errno import ENOSPC
from pathlib import Path

import huggingface_hub
import pytest
import torch
import transformers.trainer
from safetensors.torch import load_file
from transformers import AutoModelForSequenceClassification, Trainer, TrainerCallback, TrainerState

from sparring import FreeLB, InputError, Plain
from sparring.loops.huggingface import AdversarialTrainer, last_complete_checkpoint
from tests.loops.asking import Asking
from tests.loops.tiny import classifier, full_disk, same, weights
from tests.loops.trainers import run

SAVING = {"save_strategy": "steps", "save_steps": 3}


class StoppedError(Exception):
    pass


class StopAt(TrainerCallback):
    """What a kill looks like to the files."""

    def __init__(self, step):
        self.step = step

    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step == self.step:
            raise StoppedError


@pytest.mark.parametrize("options", [{}, {"gradient_accumulation_steps": 2}, {"bf16": True}])
def test_a_stopped_run_resumes_and_ends_as_if_it_had_not_been_stopped(options, tmp_path):
    def trained(folder, **kwargs):
        return run(AdversarialTrainer, folder, options=SAVING | options, method=FreeLB(seed=5), **kwargs)

    unbroken = trained(tmp_path / "unbroken")
    with pytest.raises(StoppedError):
        trained(tmp_path / "stopped", callbacks=[StopAt(5)])
    (folder,) = (tmp_path / "stopped").glob("checkpoint-*")
    assert folder.name == "checkpoint-3"
    resumed = trained(tmp_path / "stopped", resume=True)
    assert resumed.state.global_step == unbroken.state.global_step
    assert same(weights(resumed.model), weights(unbroken.model))
    assert resumed.method.get_extra_state() == unbroken.method.get_extra_state()


def test_a_methods_own_parameters_and_their_optimizer_state_resume_too(tmp_path):
    def trained(folder, **kwargs):
        return run(AdversarialTrainer, folder, options=SAVING, method=Asking(), **kwargs)

    unbroken = trained(tmp_path / "unbroken")
    resumed = trained(tmp_path / "other", resume=str(tmp_path / "unbroken" / "checkpoint-6"))
    assert torch.equal(resumed.method.own, unbroken.method.own)
    assert same(weights(resumed.model), weights(unbroken.model))


def test_a_saved_model_is_a_plain_one(tmp_path):
    ours = run(AdversarialTrainer, tmp_path / "ours", method=Asking())
    theirs = run(Trainer, tmp_path / "theirs")
    for trainer in (ours, theirs):
        trainer.save_model()
    names = [sorted(path.name for path in (tmp_path / kind).iterdir()) for kind in ("ours", "theirs")]
    assert names[0] == names[1]
    assert not any("method" in name for name in names[0])
    assert (
        load_file(tmp_path / "ours/model.safetensors").keys()
        == load_file(tmp_path / "theirs/model.safetensors").keys()
    )
    loaded = AutoModelForSequenceClassification.from_pretrained(tmp_path / "ours")
    assert same(weights(loaded), weights(ours.model))


@pytest.fixture
def hub(monkeypatch):
    """A hub that notes the names of the files it gets."""
    got = set()

    class Repository:
        repo_id = "me/model"

    def upload_folder(*_, folder_path, **__):
        got.update(path.name for path in Path(folder_path).iterdir())

    for name, function in (("create_repo", lambda *_, **__: Repository), ("upload_folder", upload_folder)):
        monkeypatch.setattr(huggingface_hub.HfApi, name, function)
        monkeypatch.setattr(transformers.trainer, name, function, raising=False)  # older ones import it there
    monkeypatch.setattr(Trainer, "create_model_card", lambda *_, **__: None)
    return got


def test_what_is_pushed_to_the_hub_is_a_plain_model(hub, tmp_path):
    trainer = run(AdversarialTrainer, tmp_path, options={"push_to_hub": True}, method=FreeLB())
    trainer.push_to_hub()
    assert {"model.safetensors", "config.json"} <= hub
    assert not any("method" in name for name in hub)


# -- checkpoints that were not written to their end ----------------------------------------------------------


def test_only_a_complete_checkpoint_is_taken_up(tmp_path):
    options = SAVING | {"save_steps": 2, "max_steps": 10}
    unbroken = run(AdversarialTrainer, tmp_path, options=options, method=FreeLB())
    last = tmp_path / "checkpoint-10"
    assert last_complete_checkpoint(tmp_path) == str(last)  # by number, not by name
    (last / "trainer_state.json").write_text('{"epoch": 1.0, "glob', encoding="utf-8")
    (tmp_path / "checkpoint-8" / "trainer_state.json").unlink()
    (tmp_path / "checkpoint-6" / "method.pt").unlink()
    (tmp_path / "checkpoint-last").mkdir()
    assert last_complete_checkpoint(tmp_path) == str(tmp_path / "checkpoint-4")
    resumed = run(AdversarialTrainer, tmp_path, options=options, method=FreeLB(), resume=True)
    assert same(weights(resumed.model), weights(unbroken.model))
    for folder in tmp_path.glob("checkpoint-*"):
        shutil.rmtree(folder)
    assert last_complete_checkpoint(tmp_path) is None
    assert last_complete_checkpoint(tmp_path / "nowhere") is None


def test_resuming_from_nothing_or_from_a_plain_trainers_checkpoint_is_one_clear_line(tmp_path):
    with pytest.raises(InputError, match=r"holds no complete checkpoint to resume from"):
        run(AdversarialTrainer, tmp_path, method=FreeLB(), resume=True)
    run(Trainer, tmp_path, options=SAVING)
    with pytest.raises(InputError, match=r"checkpoint-6 is no checkpoint with a method in it"):
        run(AdversarialTrainer, tmp_path, method=FreeLB(), resume=str(tmp_path / "checkpoint-6"))


FILES = {"model.safetensors": 2_000, "optimizer.pt": 30_000, "method.pt": 200_000}  # bytes that it outgrows


@pytest.mark.filterwarnings("ignore:mtime may not be reliable:UserWarning")  # the Trainer's
@pytest.mark.parametrize("file", FILES)
def test_a_full_disk_leaves_the_previous_checkpoint_and_nothing_else(file, tmp_path, monkeypatch):
    def trained(folder, **kwargs):
        method = FreeLB()
        method.register_buffer("large", torch.zeros(100_000))
        options = SAVING | {"save_total_limit": 1}
        return run(AdversarialTrainer, tmp_path / folder, options=options, method=method, **kwargs)

    unbroken = trained("unbroken")
    save = Trainer._save_checkpoint

    def on_a_full_disk(trainer, *args, **kwargs):
        with full_disk(FILES[file]) if trainer.state.global_step == 6 else nullcontext():
            save(trainer, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_save_checkpoint", on_a_full_disk)
        message = r"cannot write .*checkpoint-6: .*; free space and resume from .*checkpoint-3$"
        with pytest.raises(InputError, match=message) as caught:
            trained("run")
    assert "\n" not in str(caught.value)
    assert [path.name for path in (tmp_path / "run").glob("checkpoint-*")] == ["checkpoint-3"]
    assert same(weights(trained("run", resume=True).model), weights(unbroken.model))


def test_a_full_disk_at_the_first_checkpoint_or_at_its_last_file_leaves_none(tmp_path, monkeypatch):
    def half(_state, path):
        Path(path).write_text('{"epoch"', encoding="utf-8")
        raise OSError(ENOSPC, "No space left on device")

    monkeypatch.setattr(TrainerState, "save_to_json", half)
    with pytest.raises(
        InputError, match=r"checkpoint-3: No space left on device; free space and start again$"
    ):
        run(AdversarialTrainer, tmp_path, options=SAVING, method=FreeLB())
    assert list(tmp_path.iterdir()) == []


def test_a_checkpoint_that_is_written_anew_is_incomplete_until_it_is_done(tmp_path, monkeypatch):
    run(AdversarialTrainer, tmp_path, options=SAVING, method=Plain())
    assert last_complete_checkpoint(tmp_path) == str(tmp_path / "checkpoint-10")

    def killed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Trainer, "_save_rng_state", killed)
    with pytest.raises(KeyboardInterrupt):
        run(AdversarialTrainer, tmp_path, options=SAVING | {"save_steps": 10}, method=FreeLB())
    assert last_complete_checkpoint(tmp_path) == str(tmp_path / "checkpoint-9")


def test_an_error_on_the_way_to_the_hub_is_not_taken_for_a_full_disk(hub, tmp_path, monkeypatch):
    def fail(*_):
        raise ConnectionError("the hub is away")

    monkeypatch.setattr(Trainer, "_push_from_checkpoint", fail)
    with pytest.raises(ConnectionError, match="the hub is away"):
        run(AdversarialTrainer, tmp_path, options=SAVING | {"push_to_hub": True}, method=FreeLB())
    assert last_complete_checkpoint(tmp_path).endswith("checkpoint-3")


def test_another_error_in_a_checkpoint_is_left_as_it_is(tmp_path, monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("out of memory")

    monkeypatch.setattr(Trainer, "_save_optimizer_and_scheduler", fail)
    with pytest.raises(RuntimeError, match="out of memory"):
        run(AdversarialTrainer, tmp_path, classifier(), options=SAVING, method=FreeLB())
