"""What is shown of a training while it runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from transformers import TrainerCallback

from sparring.cli import console

if TYPE_CHECKING:
    from transformers import TrainerControl, TrainerState, TrainingArguments

KEPT = ("accuracy", "macro_f1", "loss")


class Watch(TrainerCallback):
    """Draws the progress, says what each epoch brought, asks for checkpoints between the epochs' ends.

    Args:
        save_steps: from one of those to the next; 0 for none.

    Attributes:
        first: the step that a resumed run went on from; None where it began anew.
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

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Show the bar."""
        if state.global_step > 0:
            self.first = state.global_step
            console.facts([("Resumed", f"after step {state.global_step:,} of {state.max_steps:,}")])
        self.epochs = [_kept(logs) for logs in state.log_history if "eval_accuracy" in logs]
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
            losses = {
                "loss": logs.get("adv/loss_clean", logs["loss"]),
                "adversarial": logs.get("adv/loss_adv"),
            }
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
            self.epochs.append(_kept(metrics))
            epoch, found = f"epoch {len(self.epochs)}/{int(args.num_train_epochs)}", self.epochs[-1]
            validation = f"validation loss {found['loss']:.3f}  accuracy {found['accuracy']:.3f}"
            print("  ".join(part for part in (epoch, self._figures, validation) if part), flush=True)

    def _show(self, args: TrainingArguments, state: TrainerState) -> None:
        assert self._bar is not None
        epochs = int(args.num_train_epochs)
        epoch = min(int(state.epoch or 0) + 1, epochs)
        self._bar.at(state.global_step, f"epoch {epoch}/{epochs}", self._figures)


def _kept(metrics: Mapping[str, float]) -> dict[str, float]:
    return {key: metrics[f"eval_{key}"] for key in KEPT}
