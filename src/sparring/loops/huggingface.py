"""Hugging Face's Trainer, and anyone's subclass of it, with a method in place of its backward pass.

Every argument stays the Trainer's own. A pass of the method *is* the Trainer's `training_step`, its backward
held back: the loss is the Trainer's, or the subclass's, to compute, to cast and to scale, in every version.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy, deepcopy
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_
from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_utils import has_length

from sparring.errors import InputError
from sparring.loops.batches import shares
from sparring.loops.checkpoints import disk_error, load, save
from sparring.loops.distributed import broadcast_parameters, mean_over_processes, synchronised_once
from sparring.method import Method
from sparring.randomness import devices_of, untouched

RobustMetric = Callable[[nn.Module, Any], Mapping[str, float]]

if TYPE_CHECKING:
    _Trainer = Trainer
else:
    _Trainer = object  # a mixin: the Trainer comes after it

STATE = "trainer_state.json"  # the last file that the Trainer writes into a checkpoint
NOT_YET = ("DEEPSPEED", "FSDP", "MEGATRON_LM", "TP", "XLA")  # Accelerate's names


class AdversarialMixin(_Trainer):
    """Put it before any Trainer: `class MyTrainer(AdversarialMixin, SFTTrainer)`, and pass `method=`.

    Args:
        *args: the Trainer's.
        method: what stands where the Trainer's backward stood.
        robust_metric: a callable `(model, dataloader) -> {"attacked_accuracy": ...}`. Each evaluation adds
            what it returns, with the prefix `eval_`, for `metric_for_best_model` and early stopping to go by.
            It is called in evaluation mode, and leaves the parameters' `.grad` alone.
        **kwargs: the Trainer's.

    Raises:
        InputError: the method, or a setting of the Trainer that no method can be run under.
    """

    def __init__(
        self, *args: Any, method: Method, robust_metric: RobustMetric | None = None, **kwargs: Any
    ) -> None:
        if not isinstance(method, Method):
            raise InputError(f"method is {method!r}, but must be a method such as FreeLB()")
        super().__init__(*args, **kwargs)
        self.method = method.to(self.args.device)
        self.robust_metric = robust_metric
        self._untrained = deepcopy(method.state_dict())
        self._shares: Iterator[float] = iter(())
        self._hooked = False
        _refuse(self, method)
        self.add_callback(_Begin(self.method))

    # -- a step ----------------------------------------------------------------------------------------------

    def get_batch_samples(self, *args: Any, **kwargs: Any) -> Any:
        """The micro-batches of an optimizer step, whose shares in its examples are noted for the method."""
        batches, items = super().get_batch_samples(*args, **kwargs)
        self._shares = iter(shares(batches))
        self.method.zero_grad()  # the Trainer does so with the model's gradients only
        return batches, items

    def training_step(
        self, model: nn.Module, inputs: dict[str, Any], num_items_in_batch: Any = None, **kwargs: Any
    ) -> Tensor:
        """The method's passes, each of them the Trainer's own `training_step` up to its backward."""
        training_step, backward = super().training_step, self.accelerator.backward
        compute_loss: Callable[..., Any] = self.compute_loss
        seen: dict[str, Any] = {}

        def computed(*args: Any, return_outputs: Any = False, **kwargs: Any) -> Any:
            loss, seen["outputs"] = compute_loss(*args, return_outputs=True, **kwargs)
            return (loss, seen["outputs"]) if return_outputs else loss

        def held_back(loss: Tensor, **kwargs: Any) -> None:
            seen["loss"], seen["kwargs"] = loss, kwargs

        def forward(model: nn.Module, batch: Any) -> dict[str, Any]:
            batch = copy(batch)  # a subclass may take something out
            swapped = _replaced(self, "compute_loss", computed)
            with swapped, _replaced(self.accelerator, "backward", held_back):
                if model.training:
                    training_step(model, batch, num_items_in_batch, **kwargs)
                else:  # the self-check of the first batch: training_step would switch dropout on
                    with self.compute_loss_context_manager():
                        batch = self._prepare_inputs(batch)
                        held_back(computed(model, batch, num_items_in_batch=num_items_in_batch))
            if "loss" not in seen:
                raise InputError(f"the training_step of {type(self).__name__} calls no accelerator.backward")
            outputs = seen.pop("outputs", None)
            logits = outputs.get("logits") if isinstance(outputs, Mapping) else None
            return {"loss": seen.pop("loss"), "logits": logits}

        model.train()
        with synchronised_once(model, self.method, now=self.accelerator.sync_gradients):
            loss: Tensor = self.method(
                model,
                inputs,
                weight=next(self._shares, 1.0),
                loss_weight=1.0,
                forward=forward,
                backward=lambda loss: backward(loss, **seen["kwargs"]),
            )
        return loss

    def create_optimizer(self, *args: Any, **kwargs: Any) -> torch.optim.Optimizer:
        """The Trainer's optimizer, with the method's own parameters and hooks."""
        ours = self.optimizer is None
        optimizer: torch.optim.Optimizer = super().create_optimizer(*args, **kwargs)
        for group in self.method.param_groups() if ours else ():
            optimizer.add_param_group(group)
        if ours or not self._hooked:  # here and now it is torch's: Accelerate's wrapper takes no hooks
            optimizer.register_step_pre_hook(self._clip_own)
            optimizer.register_step_post_hook(self.method.after_step)
            self._hooked = True
        return optimizer

    def _clip_own(self, *_: Any) -> None:
        """Clip the method's own parameters apart from the model's: they can be hundreds of times as large."""
        if self.args.max_grad_norm:
            clip_grad_norm_([*self.method.parameters()], self.args.max_grad_norm)

    # -- figures ---------------------------------------------------------------------------------------------

    def log(self, logs: dict[str, float], *args: Any, **kwargs: Any) -> None:
        """Add the method's figures, `adv/...`, to those of training."""
        if "loss" in logs:
            logs.update(self.method.read_figures())
        super().log(logs, *args, **kwargs)

    def evaluation_loop(self, dataloader: Any, description: str, *args: Any, **kwargs: Any) -> Any:
        """Add what `robust_metric` finds to an evaluation; a prediction may be on texts without labels."""
        output: Any = super().evaluation_loop(dataloader, description, *args, **kwargs)
        if self.robust_metric is not None and description == "Evaluation":
            model: Any = self.model
            with untouched(devices_of(model)):
                found = self.robust_metric(model, dataloader)
            for name, value in found.items():
                key = f"{kwargs.get('metric_key_prefix', 'eval')}_{name}"
                output.metrics[key] = mean_over_processes(float(value), self.args.device)
        return output

    # -- checkpoints -----------------------------------------------------------------------------------------

    def train(self, resume_from_checkpoint: Any = None, *args: Any, **kwargs: Any) -> Any:
        """The Trainer's; `resume_from_checkpoint=True` goes on from the last *complete* checkpoint."""
        runs = str(self.args.output_dir)
        if resume_from_checkpoint is True:
            resume_from_checkpoint = last_complete_checkpoint(runs)
            if resume_from_checkpoint is None:
                raise InputError(f"{runs} holds no complete checkpoint to resume from")
        if resume_from_checkpoint and not _is_complete(Path(resume_from_checkpoint)):
            raise InputError(
                f"{resume_from_checkpoint} is no checkpoint with a method in it that was written to its end: "
                f"resume_from_checkpoint=True takes the last such in {runs}"
            )
        if self.model_init is not None:
            self.method.load_state_dict(self._untrained)  # as new as the model
        return super().train(resume_from_checkpoint or None, *args, **kwargs)

    def _save_checkpoint(self, model: nn.Module, trial: Any, *args: Any, **kwargs: Any) -> None:
        """A checkpoint that can't be written is taken away; those before it stay.

        The Trainer deletes old checkpoints after it has written a new one, so none is lost to one that fails.
        """
        folder = Path(self._get_output_dir(trial=trial)) / f"checkpoint-{self.state.global_step}"
        if self.args.should_save:
            (folder / STATE).unlink(missing_ok=True)  # not complete until it is written anew
        try:
            super()._save_checkpoint(model, trial, *args, **kwargs)
        except (OSError, RuntimeError, SafetensorError, InputError) as error:
            why = str(error) if isinstance(error, SafetensorError) else disk_error(error)
            if why is None or _is_complete(folder):  # complete: it failed later, on its way to the hub
                raise
            shutil.rmtree(folder, ignore_errors=True)
            last = last_complete_checkpoint(folder.parent)
            then = f"resume from {last}" if last else "start again"
            raise InputError(f"cannot write {folder}: {why}; free space and {then}") from error

    def _save_rng_state(self, output_dir: str) -> None:
        """What each process needs to resume, beside the model: the random state, and the method's."""
        super()._save_rng_state(output_dir)
        save(self.method.state_dict(), Path(output_dir) / self._method_file())
        self.accelerator.wait_for_everyone()  # next, the first process completes the checkpoint

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is not None:
            self.method.load_state_dict(load(Path(checkpoint) / self._method_file()))

    def _method_file(self) -> str:
        return f"method_{self.args.process_index}.pt" if self.args.world_size > 1 else "method.pt"


class AdversarialTrainer(AdversarialMixin, Trainer):
    """The Trainer, with `method=`: `AdversarialTrainer(model=model, args=args, ..., method=FreeLB())`."""


def last_complete_checkpoint(output_dir: str | Path) -> str | None:
    """The newest checkpoint in `output_dir` that was written to its end; None where there is none."""
    steps = {
        folder: folder.name.removeprefix("checkpoint-") for folder in Path(output_dir).glob("checkpoint-*")
    }
    complete = [folder for folder, step in steps.items() if step.isdecimal() and _is_complete(folder)]
    return str(max(complete, key=lambda folder: int(steps[folder]))) if complete else None


def _is_complete(checkpoint: Path) -> bool:
    try:
        json.loads((checkpoint / STATE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return any(checkpoint.glob("method*.pt"))


class _Begin(TrainerCallback):
    """Tells the method how long the run will be, and gives all processes the same adversary."""

    def __init__(self, method: Method) -> None:
        self.method = method

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        loader, steps = kwargs["train_dataloader"], state.max_steps
        if has_length(loader):
            steps = max(ceil(len(loader) / args.gradient_accumulation_steps), 1)
        self.method.begin(total_steps=state.max_steps, steps_per_epoch=steps)
        broadcast_parameters(self.method)


def _refuse(trainer: Trainer, method: Method) -> None:
    """Name the settings under which a method would silently do something else."""
    kind = trainer.accelerator.distributed_type.value
    if kind in NOT_YET:
        raise InputError(
            f"the Trainer under {kind} can't run a method yet: use DDP, as torchrun does by itself"
        )
    if trainer.args.n_gpu > 1:
        raise InputError(
            "DataParallel would split the batch but not its perturbation: start it with torchrun"
        )
    if "lomo" in str(trainer.args.optim).lower():
        raise InputError("LOMO updates the weights within a backward, and a method may run several to a step")
    if method.replays > 1:
        raise InputError(f"the Trainer can't replay batches, as {type(method).__name__} wants: use loops.fit")


@contextmanager
def _replaced(owner: object, name: str, value: Any) -> Iterator[None]:
    """Inside, the attribute `name` of this one object is `value`."""
    own = vars(owner)
    before = {name: own[name]} if name in own else {}
    own[name] = value
    try:
        yield
    finally:
        del own[name]
        own.update(before)
