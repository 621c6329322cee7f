from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from torch import nn
from torch.optim import SGD, AdamW
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader, IterableDataset, RandomSampler

from sparring import FreeLB, InputError, Plain
from sparring.loops import fit
from tests.loops.asking import Asking
from tests.loops.tiny import classifier, collate, examples, full_disk, furthest, loader, same, weights


def adamw(model, method):
    return AdamW([{"params": model.parameters()}, *method.param_groups()], lr=1e-2)


def decay(optimizer):
    return LambdaLR(optimizer, lambda step: 0.8**step)


def train(method, batches=None, model=None, **kwargs):
    """The model after `fit`, from a fixed random state."""
    model = classifier() if model is None else model
    optimizer = adamw(model, method)
    torch.manual_seed(7)
    fit(model, loader(shuffle=True) if batches is None else batches, method, optimizer, **kwargs)
    return model


class StoppedError(Exception):
    pass


def stop_at(step):
    def on_step(now, _figures):
        if now == step:
            raise StoppedError

    return on_step


# -- it is the loop that everybody writes ---------------------------------------------------------------


def test_plain_is_the_loop_that_everybody_writes_bit_for_bit():
    ours = train(Plain(), epochs=2)
    theirs = classifier()
    optimizer = AdamW(theirs.parameters(), lr=1e-2)
    torch.manual_seed(7)
    theirs.train()
    batches = loader(shuffle=True)
    for _ in range(2):
        for batch in batches:
            optimizer.zero_grad()
            theirs(**batch).loss.backward()
            nn.utils.clip_grad_norm_(theirs.parameters(), 1.0)
            optimizer.step()
    assert same(weights(ours), weights(theirs))


def test_accumulated_micro_batches_of_unequal_sizes_are_the_one_big_batch():
    def after_a_step(batches, accumulate):
        model = classifier(dropout=0).double()
        fit(model, batches, FreeLB(start=0, unit=1.0), SGD(model.parameters(), lr=1), accumulate=accumulate)
        return weights(model)

    texts = examples(7)
    parts = [collate(texts[:4]), collate(texts[4:6]), collate(texts[6:])]
    big = after_a_step([collate(texts)], 1)
    assert furthest(after_a_step(parts, 3), big) < 1e-12
    assert furthest(after_a_step([collate(texts[:6]), collate(texts[6:])], 2), big) < 1e-12


def test_the_last_accumulation_may_be_incomplete():
    seen = []
    train(Plain(), accumulate=2, epochs=2, on_step=lambda step, _: seen.append(step))
    assert seen == [1, 2, 3, 4, 5, 6]  # 5 batches make 3 steps an epoch


def test_the_scheduler_steps_with_the_optimizer_and_figures_are_reported():
    model, method, seen = classifier(), FreeLB(), []
    optimizer = adamw(model, method)
    fit(model, loader(), method, optimizer, scheduler=decay(optimizer), on_step=lambda *now: seen.append(now))
    assert [step for step, _ in seen] == [1, 2, 3, 4, 5]
    assert [figures["learning_rate"] for _, figures in seen] == pytest.approx(
        [1e-2 * 0.8**k for k in range(5)]
    )
    assert seen[0][1].keys() == {
        "loss",
        "grad_norm",
        "learning_rate",
        "adv/loss_adv",
        "adv/delta_norm",
        "adv/skipped",
    }
    assert seen[0][1]["loss"] == pytest.approx(seen[0][1]["adv/loss_adv"], rel=0.2)


# -- what a method asks of a loop -----------------------------------------------------------------------


def test_batches_are_replayed_and_the_steps_stay_those_of_plain_training():
    method = Asking(replays=2)
    train(method, loader(6), epochs=2)
    first = [collate(examples(6)[i : i + 2])["input_ids"].sum().item() for i in (0, 2, 4)]
    assert method.seen == [
        total for total in first for _ in range(2)
    ]  # 2 epochs' 6 steps: one pass over the data
    assert method.told == (6, 3)
    assert len(method.norms) == 6


def test_a_run_may_end_in_the_middle_of_a_pass_over_the_data():
    method = Asking(replays=2)
    train(method, loader(6), epochs=1)
    assert len(method.norms) == 3  # of the 6 that replaying all 3 batches takes


def test_a_replayed_accumulation_comes_as_a_whole():
    method = Asking(replays=2)
    train(method, loader(4, size=1), accumulate=2, epochs=2)
    totals = [sum(text["input_ids"]) for text in examples(4)]
    assert method.seen == [*totals[:2], *totals[:2], *totals[2:], *totals[2:]]


def test_own_parameters_are_clipped_apart_from_the_models():
    huge, tiny = Asking(scale=1e6), Asking(scale=1e-6)
    clipped, free = train(huge, clip=0.1), train(tiny, clip=0.1)
    assert same(weights(clipped), weights(free))
    assert huge.norms == pytest.approx([0.1] * 5)
    assert not torch.equal(huge.own, torch.ones(3))


def test_the_hook_on_the_optimizer_is_taken_off_also_after_an_error():
    model, method = classifier(), Asking()
    optimizer = adamw(model, method)
    with pytest.raises(StoppedError):
        fit(model, loader(), method, optimizer, on_step=stop_at(2))
    optimizer.step()
    assert len(method.norms) == 2


def test_a_forward_stands_in_for_the_models_loss():
    def forward(model, batch):
        logits = model(batch["input_ids"], batch["attention_mask"]).logits
        return nn.functional.cross_entropy(logits, batch["labels"]), logits

    assert same(weights(train(FreeLB(), forward=forward)), weights(train(FreeLB())))


# -- it goes on where it stopped ------------------------------------------------------------------------


def drawing(texts):
    """Other texts each time, by Python's and NumPy's random numbers."""
    batch = collate(texts)
    batch["input_ids"][:, 0] = random.randrange(1, 40)
    batch["input_ids"][:, 1] = int(np.random.randint(1, 40))  # noqa: NPY002 - as collators do
    return batch


LOADERS = {
    "a collator that draws": lambda: DataLoader(examples(10), batch_size=2, collate_fn=drawing),
    "the global stream": lambda: loader(shuffle=True),
    "its own generator": lambda: loader(shuffle=True, generator=torch.Generator().manual_seed(3)),
    "its sampler's generator": lambda: loader(
        sampler=RandomSampler(range(10), generator=torch.Generator().manual_seed(3))
    ),
}


@pytest.mark.parametrize("order_from", LOADERS)
def test_a_run_stopped_in_the_middle_of_an_epoch_ends_as_if_it_had_not_been(order_from, tmp_path):
    batches = LOADERS[order_from]

    def run(resume, on_step=None, seed=7):
        model, method = classifier(), FreeLB(seed=5)
        optimizer = adamw(model, method)
        torch.manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed)  # noqa: NPY002
        fit(
            model,
            batches(),
            method,
            optimizer,
            epochs=3,
            scheduler=decay(optimizer),
            on_step=on_step,
            checkpoint=tmp_path / "run.pt",
            save_every=4,
            resume=resume,
        )
        return weights(model)

    unbroken = run(resume=False)
    with pytest.raises(StoppedError):
        run(resume=False, on_step=stop_at(9))
    seen = []
    resumed = run(resume=True, on_step=lambda step, _: seen.append(step), seed=99)
    assert seen == list(range(9, 16))  # from the checkpoint after step 8, the third of the second epoch
    assert same(resumed, unbroken)


def test_a_run_resumed_between_epochs_or_when_done_ends_as_if_unbroken(tmp_path):
    def run(resume, on_step=None):
        keep = {"checkpoint": tmp_path / "run.pt", "save_every": 5, "resume": resume}
        return weights(train(FreeLB(), epochs=2, on_step=on_step, **keep))

    unbroken = run(resume=False)
    assert same(run(resume=True), unbroken)
    with pytest.raises(StoppedError):
        run(resume=False, on_step=stop_at(6))
    assert same(run(resume=True), unbroken)


def test_a_run_resumed_in_the_middle_of_replays_and_accumulation_ends_as_if_unbroken(tmp_path):
    def run(resume, on_step=None):
        method = Asking(replays=2)
        model = train(
            method,
            loader(8, shuffle=True),
            epochs=4,
            accumulate=2,
            checkpoint=tmp_path / "run.pt",
            save_every=3,
            resume=resume,
            on_step=on_step,
        )
        return {**weights(model), "own": method.own.detach()}

    unbroken = run(resume=False)
    with pytest.raises(StoppedError):
        run(resume=False, on_step=stop_at(5))
    assert same(run(resume=True), unbroken)


# -- what can go wrong ----------------------------------------------------------------------------------


def test_a_full_disk_leaves_the_previous_checkpoint(tmp_path):
    file = tmp_path / "run.pt"
    unbroken = train(Plain(), checkpoint=file)
    before = file.read_bytes()
    with full_disk(), pytest.raises(InputError, match=r"cannot write .*run\.pt: .*still there.*free space"):
        train(FreeLB(), checkpoint=file)
    assert [path.name for path in tmp_path.iterdir()] == ["run.pt"]
    assert file.read_bytes() == before
    assert same(weights(train(Plain(), checkpoint=file, resume=True)), weights(unbroken))


def test_a_kill_while_writing_leaves_the_previous_checkpoint(tmp_path, monkeypatch):
    file = tmp_path / "run.pt"
    train(Plain(), checkpoint=file)
    before = file.read_bytes()

    def killed(_state, half):
        half.write(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(torch, "save", killed)
    with pytest.raises(KeyboardInterrupt):
        train(FreeLB(), checkpoint=file)
    assert file.read_bytes() == before


class Stream(IterableDataset):
    def __iter__(self):
        return iter(examples(4))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"epochs": 0}, "epochs is 0, but must be 1 or more"),
        ({"accumulate": 0}, "accumulate is 0, but must be 1 or more"),
        ({"save_every": 0}, "save_every is 0, but must be 1 or more"),
        ({"clip": 0}, "clip is 0, but must be more than 0"),
        ({"batches": []}, "number of batches in the loader is 0"),
        ({"batches": DataLoader(Stream(), batch_size=2, collate_fn=collate)}, "the loader has no length"),
        ({"batches": [{"text": "no tensor"}]}, "cannot count the examples"),
        ({"resume": True}, "resume=True needs the file"),
    ],
)
def test_a_wrong_argument_is_one_clear_line(arguments, message):
    with pytest.raises(InputError, match=message) as caught:
        train(Plain(), **arguments)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda file: file.unlink(), r"cannot read the checkpoint .*run\.pt: No such file"),
        (lambda file: file.write_bytes(b"nothing of the kind"), r"run\.pt is no checkpoint"),
        (
            lambda file: file.write_bytes(file.read_bytes()[:2000]),
            r"run\.pt is no checkpoint, or a damaged one",
        ),
    ],
)
def test_a_checkpoint_that_cannot_be_read_is_named(change, message, tmp_path):
    file = tmp_path / "run.pt"
    train(Plain(), checkpoint=file)
    change(file)
    with pytest.raises(InputError, match=message):
        train(Plain(), checkpoint=file, resume=True)


def test_another_runs_checkpoint_is_refused(tmp_path):
    file = tmp_path / "run.pt"
    train(Plain(), checkpoint=file)
    with pytest.raises(
        InputError, match="5 steps for a pass over the data, not 3: resume with the same data"
    ):
        train(Plain(), checkpoint=file, resume=True, accumulate=2)
    with pytest.raises(InputError, match="of a run with another method: "):
        train(Asking(), checkpoint=file, resume=True)
    model = classifier()
    optimizer = adamw(model, Plain())
    with pytest.raises(InputError, match="of a run without a scheduler"):
        fit(model, loader(), Plain(), optimizer, checkpoint=file, resume=True, scheduler=decay(optimizer))
