"""The work of `sparring train`: the Trainer with its arguments, what it cost, and how it stops."""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from logging import ERROR
from math import ceil
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError
from transformers import PrinterCallback, ProgressCallback, TrainingArguments, set_seed
from transformers.utils import logging

from sparring.cli import console
from sparring.cli.folder import RunFolder
from sparring.cli.watch import Watch
from sparring.data import LabelSet, Split, default_model_path
from sparring.errors import InputError
from sparring.loops.checkpoints import save as save_whole
from sparring.loops.huggingface import AdversarialTrainer, last_complete_checkpoint
from sparring.method import Method, Passes
from sparring.tasks import classification
from sparring.wrappers import Wrapper

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from sparring.cli.train import Options
    from sparring.tasks.classification import Features

SITE = "--method.site.kind output --method.site.module NAME"
"""How the command line says what the library's messages call `site=Output('...')`."""

KEPT = 2
"""Checkpoints kept: the newest, and the best too where it is to be selected."""


@dataclass(frozen=True)
class Job:
    """What training needs."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    method: Method
    features: dict[str, Features]
    options: Options
    folder: RunFolder

    @property
    def batches(self) -> int:
        """In a pass over the training data."""
        return ceil(len(self.features["train"]) / self.options.batch_size)

    @property
    def steps(self) -> int:
        """Of the optimizer, in a pass over the training data."""
        return ceil(self.batches / self.options.accumulate)


def prepare(options: Options, data: Split, labels: LabelSet, method: Method, folder: RunFolder) -> Job:
    """Load the model and tokenise the data.

    Raises:
        InputError: the model can't be loaded, or doesn't fit the data.
    """
    set_seed(options.seed)
    model, tokenizer = classification.load_model(options.model or default_model_path(), labels)
    name = options.model or "all-MiniLM-L6-v2"
    parameters = sum(parameter.numel() for parameter in model.parameters())
    console.facts([("Model", f"{name}, a {type(model).__name__} of {parameters / 1e6:.1f} M parameters")])
    features = {
        part: classification.features(examples, tokenizer, max_length=options.max_length, labels=labels)
        for part, examples in (("train", data.train), ("validation", data.validation), ("test", data.test))
    }
    return Job(model, tokenizer, method, features, options, folder)


def fit(job: Job) -> dict[str, Any]:
    """Train, where asked to from the last complete checkpoint. Then the model holds the weights selected.

    Returns:
        What the results say of it.

    Raises:
        InputError: the model can't be trained so, or a checkpoint can't be written.
        KeyboardInterrupt: saying how to go on.
    """
    last = last_complete_checkpoint(job.folder.checkpoints) if job.options.resume else None
    if job.options.resume and last is None:
        console.facts([("Resumed", "from the beginning, for there is no complete checkpoint")])
    trainer = AdversarialTrainer(
        model=job.model,
        args=_arguments(job),
        train_dataset=job.features["train"],
        eval_dataset=job.features["validation"],
        data_collator=classification.collator(job.tokenizer),
        processing_class=job.tokenizer,
        compute_metrics=_metrics,
        compute_loss_func=classification.loss,
        method=job.method,
    )
    for callback in (PrinterCallback, ProgressCallback):
        trainer.remove_callback(callback)
    watch = Watch(save_steps=job.options.save_steps)
    trainer.add_callback(watch)
    start = time.monotonic()
    try:
        with _quiet():
            trainer.train(resume_from_checkpoint=last)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(_how_to_resume(job)) from None
    except InputError as error:
        raise InputError(re.sub(r"site=Output\('.*?'\)", SITE, str(error))) from error
    finally:
        watch.close()
    return {
        "steps": trainer.state.global_step,
        "resumed_at_step": watch.first,
        "seconds": round(time.monotonic() - start, 2),
        "passes": vars(_passes(job)),
        "skipped_ascent_steps": int(job.method.skipped),
        "epochs": watch.epochs,
    }


def save(job: Job) -> dict[str, dict[str, float]]:
    """Write the model, its tokenizer and the method's state; measure the model on validation and test data.

    Raises:
        InputError: they can't be written.
    """
    path = job.folder.path
    try:
        with _quiet():
            job.model.save_pretrained(path)
            job.tokenizer.save_pretrained(path)
    except (OSError, SafetensorError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"cannot write {path}: {why}; free space and run `{_again(job)}`") from error
    save_whole(job.method.state_dict(), job.folder.method)
    collate, found = classification.collator(job.tokenizer), {}
    for part in ("validation", "test"):
        features = job.features[part]
        logits = classification.predict(job.model, features, collate)
        found[part] = classification.metrics(logits, [feature["labels"] for feature in features])
    return found


def _arguments(job: Job) -> TrainingArguments:
    options, steps = job.options, job.options.epochs * job.steps
    return TrainingArguments(
        output_dir=str(job.folder.checkpoints),
        num_train_epochs=options.epochs,
        per_device_train_batch_size=options.batch_size,
        per_device_eval_batch_size=2 * options.batch_size,
        gradient_accumulation_steps=options.accumulate,
        learning_rate=options.learning_rate,
        weight_decay=options.weight_decay,
        warmup_steps=ceil(options.warmup * steps),
        seed=options.seed,
        bf16=options.bf16,
        use_cpu=not torch.accelerator.is_available(),
        eval_strategy="epoch",
        save_strategy="epoch",
        save_total_limit=KEPT,
        load_best_model_at_end=options.select == "best",
        metric_for_best_model="accuracy",
        logging_steps=max(steps // 100, 1),
        logging_first_step=True,
        logging_nan_inf_filter=False,  # a loss that isn't finite is shown as it is
        dataloader_pin_memory=torch.cuda.is_available(),
        disable_tqdm=True,
        report_to=[],
    )


def _metrics(prediction: Any) -> dict[str, float]:
    return classification.metrics(
        torch.as_tensor(prediction.predictions), torch.as_tensor(prediction.label_ids)
    )


@contextmanager
def _quiet() -> Iterator[None]:
    """Inside, transformers draws no bar for each file that it writes, and doesn't warn of coarse clocks.

    It does that, in its log or as a warning, where two checkpoints were written at the same time, and goes by
    their numbers then, which is right.
    """
    bars, rotation = logging.is_progress_bar_enabled(), logging.get_logger("transformers.trainer_utils")
    level = rotation.level
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    rotation.setLevel(ERROR)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="mtime may not be reliable")
            yield
    finally:
        rotation.setLevel(level)
        if bars:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]


def _how_to_resume(job: Job) -> str:
    last = last_complete_checkpoint(job.folder.checkpoints)
    if last is None:
        return f"there was no checkpoint yet, `{_again(job)}` begins anew"
    return f"step {last.rpartition('-')[2]} is kept, `{_again(job)}` goes on from there"


def _again(job: Job) -> str:
    return f"sparring train --resume --output {job.folder.path}"


def _passes(job: Job) -> Passes:
    """What all batches cost; those on which a wrapped method doesn't play, one full pass."""
    total = Passes()
    for epoch in range(job.options.epochs):
        for batch in range(job.batches):
            cost = _passes_at(job.method, epoch * job.steps + batch // job.options.accumulate)
            total = Passes(total.full + cost.full, total.ascent + cost.ascent, total.forward + cost.forward)
    return total


def _passes_at(method: Method, step: int) -> Passes:
    if isinstance(method, Wrapper):
        return _passes_at(method.method, step) if method.plays(step) else Passes(full=1)
    return method.passes
