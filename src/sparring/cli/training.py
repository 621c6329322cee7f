"""The training of `sparring train`: the Trainer's arguments, what is shown while it runs, and how it stops."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError
from transformers import PrinterCallback, ProgressCallback, TrainerCallback, TrainingArguments, set_seed

from sparring.cli import console
from sparring.cli.folder import RunFolder
from sparring.data import LabelSet, Split, default_model_path
from sparring.errors import InputError
from sparring.loops.checkpoints import save as save_whole
from sparring.loops.huggingface import AdversarialTrainer, last_complete_checkpoint
from sparring.method import Method, Passes
from sparring.tasks import classification
from sparring.wrappers import Wrapper

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase, TrainerControl, TrainerState

    from sparring.cli.train import Options
    from sparring.tasks.classification import Features

KEPT = 2
"""Checkpoints kept, the newest; the best one too, where it is to be selected."""


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
    def steps_per_epoch(self) -> int:
        """Optimizer steps in a pass over the training data."""
        return ceil(ceil(len(self.features["train"]) / self.options.batch_size) / self.options.accumulate)


def prepare(options: Options, data: Split, labels: LabelSet, method: Method, folder: RunFolder) -> Job:
    """Load the model and tokenise the data.

    Raises:
        InputError: the model can't be loaded, or doesn't fit.
    """
    set_seed(options.seed)
    name = options.model or str(default_model_path())
    model, tokenizer = classification.load_model(name, labels)
    parameters = sum(p.numel() for p in model.parameters())
    shown = options.model or "all-MiniLM-L6-v2, the default"
    console.facts([("Model", f"{shown}: {type(model).__name__}, {parameters / 1e6:,.1f} M parameters")])
    features = {
        name: classification.features(part, tokenizer, max_length=options.max_length, labels=labels)
        for name, part in (("train", data.train), ("validation", data.validation), ("test", data.test))
    }
    return Job(model, tokenizer, method, features, options, folder)


def fit(job: Job) -> dict[str, Any]:
    """Train, from the last complete checkpoint where asked to; the model then holds the weights selected.

    Returns:
        What the results say of it: steps, seconds, passes, the validation data's metrics after each epoch.

    Raises:
        InputError: the model can't be trained so, or a checkpoint can't be written.
        KeyboardInterrupt: saying how to go on.
    """
    last = last_complete_checkpoint(job.folder.checkpoints) if job.options.resume else None
    if job.options.resume and last is None:
        console.facts([("Resumed", "from the beginning: there was no complete checkpoint")])
    trainer = AdversarialTrainer(
        model=job.model,
        args=_arguments(job),
        train_dataset=job.features["train"],
        eval_dataset=job.features["validation"],
        data_collator=classification.collator(job.tokenizer),
        processing_class=job.tokenizer,
        compute_metrics=_metrics,
        method=job.method,
    )
    trainer.remove_callback(PrinterCallback)
    trainer.remove_callback(ProgressCallback)
    watch = Watch(save_steps=job.options.save_steps)
    trainer.add_callback(watch)
    start = time.monotonic()
    try:
        trainer.train(resume_from_checkpoint=last)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(how_to_resume(job)) from None
    finally:
        watch.close()
    return {
        "steps": trainer.state.global_step,
        "steps_per_epoch": job.steps_per_epoch,
        "resumed_at_step": watch.first,
        "seconds": round(time.monotonic() - start, 2),
        "passes": vars(passes_of(job)),
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
        job.model.save_pretrained(path)
        job.tokenizer.save_pretrained(path)
    except (OSError, SafetensorError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        again = f"sparring train --resume --output {path}"
        raise InputError(f"cannot write {path}: {why}; free space and run `{again}`") from error
    save_whole(job.method.state_dict(), job.folder.method)
    collate, found = classification.collator(job.tokenizer), {}
    for part in ("validation", "test"):
        features = job.features[part]
        logits = classification.predict(job.model, features, collate)
        found[part] = classification.metrics(logits, [feature["labels"] for feature in features])
    return found


def how_to_resume(job: Job) -> str:
    """What is kept of a run that was stopped, and the command that goes on with it."""
    last = last_complete_checkpoint(job.folder.checkpoints)
    again = f"sparring train --resume --output {job.options.output}"
    if last is None:
        return f"there is no checkpoint yet, `{again}` starts anew"
    return f"step {last.rpartition('-')[2]} is kept, go on with `{again}`"


def passes_of(job: Job) -> Passes:
    """What all batches cost, those on which a wrapped method doesn't play at one full pass."""
    batches, total = ceil(len(job.features["train"]) / job.options.batch_size), Passes()
    for epoch in range(job.options.epochs):
        for batch in range(batches):
            cost = _passes_at(job.method, epoch * job.steps_per_epoch + batch // job.options.accumulate)
            total = Passes(total.full + cost.full, total.ascent + cost.ascent, total.forward + cost.forward)
    return total


def _passes_at(method: Method, step: int) -> Passes:
    if isinstance(method, Wrapper):
        return _passes_at(method.method, step) if method.plays(step) else Passes(full=1)
    return method.passes


def _arguments(job: Job) -> TrainingArguments:
    options, steps = job.options, job.options.epochs * job.steps_per_epoch
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
    logits, labels = prediction.predictions, prediction.label_ids
    return classification.metrics(torch.as_tensor(logits), torch.as_tensor(labels))


class Watch(TrainerCallback):
    """Draws the progress, prints what each epoch brought, and asks for checkpoints between the epochs' ends.

    Args:
        save_steps: between two of those; 0 for none.

    Attributes:
        first: the step that a resumed run went on from, None where it began anew.
        epochs: the validation data's metrics after each epoch.
    """

    def __init__(self, save_steps: int) -> None:
        self.save_steps = save_steps
        self.first: int | None = None
        self.epochs: list[dict[str, float]] = []
        self._bar: console.Bar | None = None
        self._figures = ""

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Show the bar."""
        if state.global_step > 0:
            self.first = state.global_step
            console.facts([("Resumed", f"at step {state.global_step} of {state.max_steps}")])
        self.epochs = [_named(logs) for logs in state.log_history if "eval_accuracy" in logs]
        self._bar = console.Bar("training", state.max_steps, state.global_step)

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: Mapping[str, float] | None = None,
        **kwargs: Any,
    ) -> None:
        """Note the losses."""
        if logs is not None and "loss" in logs:
            losses = {"loss": logs.get("adv/loss_clean", logs["loss"]), "adversarial": logs.get("adv/loss_adv")}
            self._figures = "  ".join(f"{name} {x:.3f}" for name, x in losses.items() if x is not None)
            self._show(args, state)

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Move the bar; ask for a checkpoint."""
        self._show(args, state)
        if self.save_steps and state.global_step % self.save_steps == 0:
            control.should_save = True

    def on_evaluate(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        metrics: Mapping[str, float] | None = None,
        **kwargs: Any,
    ) -> None:
        """Say what the epoch brought."""
        if metrics is not None:
            self.epochs.append(_named(metrics))
            console.note(f"epoch {len(self.epochs)}/{int(args.num_train_epochs)}  {shown(self.epochs[-1])}")

    def _show(self, args: TrainingArguments, state: TrainerState) -> None:
        assert self._bar is not None
        epochs = int(args.num_train_epochs)
        epoch = min(int(state.epoch or 0) + 1, epochs)
        self._bar.at(state.global_step, f"epoch {epoch}/{epochs}", self._figures)


def _named(metrics: Mapping[str, float]) -> dict[str, float]:
    return {key.removeprefix("eval_"): metrics[key] for key in ("eval_accuracy", "eval_macro_f1", "eval_loss")}


def shown(metrics: Mapping[str, float]) -> str:
    """The validation data's metrics in a line."""
    return f"validation accuracy {metrics['accuracy']:.3f}, loss {metrics['loss']:.3f}"
