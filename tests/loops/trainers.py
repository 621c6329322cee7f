"""Trainers on ten small texts."""

from __future__ import annotations

from torch import nn
from transformers import TrainingArguments

from tests.loops.tiny import classifier, collate, examples


def arguments(folder, **kwargs):
    defaults = {
        "per_device_train_batch_size": 2,
        "num_train_epochs": 2,
        "learning_rate": 1e-2,
        "save_strategy": "no",
        "report_to": [],
        "disable_tqdm": True,
        "use_cpu": True,
        "logging_steps": 1,
        "dataloader_pin_memory": False,
    }
    return TrainingArguments(output_dir=str(folder), **(defaults | kwargs))


def run(kind, folder, model=None, data=None, options=None, resume=None, **kwargs):
    """A trainer of this kind after training on 10 texts."""
    trainer = kind(
        model=classifier() if model is None else model,
        args=arguments(folder, **(options or {})),
        train_dataset=examples(10) if data is None else data,
        data_collator=collate,
        **kwargs,
    )
    trainer.train(resume_from_checkpoint=resume)
    return trainer


def history(trainer, *keys):
    return [[entry.get(key) for key in keys] for entry in trainer.state.log_history if "loss" in entry]


def summed(outputs, labels, num_items_in_batch=None):
    logits = outputs["logits"]
    loss = nn.functional.cross_entropy(
        logits.flatten(0, -2), labels.flatten(), reduction="sum", ignore_index=-100
    )
    return loss / (num_items_in_batch if num_items_in_batch is not None else labels.numel())
