from __future__ import annotations

import dataclasses

import pytest
import torch
from accelerate import Accelerator, DistributedType
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file
from torch import nn
from torch.optim import AdamW
from torch.utils.data import SequentialSampler
from transformers import EarlyStoppingCallback, Trainer, TrainingArguments

from sparring import Delayed, FreeLB, InputError, Method, Passes, Plain
from sparring.loops import fit
from sparring.loops.huggingface import AdversarialMixin, AdversarialTrainer
from tests.loops.asking import Asking
from tests.loops.tiny import classifier, collate, examples, furthest, language_model, same, weights
from tests.loops.trainers import arguments, history, run, summed

# -- parity -----------------------------------------------------------------------------------------------


class OwnLoss(Trainer):
    """As users write it: takes the labels out of the batch, and gives a mean."""

    def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
        labels = inputs.pop("labels")
        outputs = model(**inputs)
        loss = nn.functional.cross_entropy(outputs.logits.flatten(0, -2), labels.flatten(), ignore_index=-100)
        return (loss, outputs) if return_outputs else loss


class OwnStep(Trainer):
    """A subclass with a step of its own around the Trainer's."""

    steps = 0

    def training_step(self, model, inputs, *args, **kwargs):
        self.steps += 1
        inputs.pop("attention_mask")
        return super().training_step(model, inputs, *args, **kwargs)


MODELS = {"classifier": (classifier, False), "language model": (language_model, True)}
VARIANTS = {
    "as it is": (Trainer, {}, {}),
    "label smoothing": (Trainer, {"label_smoothing_factor": 0.1}, {}),
    "compute_loss_func": (Trainer, {}, {"compute_loss_func": summed}),
    "own compute_loss": (OwnLoss, {}, {}),
    "own training_step": (OwnStep, {}, {}),
    "bf16": (Trainer, {"bf16": True}, {}),
    "no clipping": (Trainer, {"max_grad_norm": 0}, {}),
}
SCALED = list(VARIANTS)[:4]  # those that differ in how the loss is scaled under accumulation
CASES = [(kind, name, n) for kind in MODELS for name in SCALED for n in (1, 2, 3)]
CASES += [("classifier", name, 3) for name in VARIANTS if name not in SCALED]


@pytest.mark.parametrize(("kind", "variant", "accumulate"), CASES)
def test_plain_in_the_trainer_is_the_trainer_bit_for_bit(kind, accumulate, variant, tmp_path):
    make, words = MODELS[kind]
    base, options, keywords = VARIANTS[variant]
    options = {"gradient_accumulation_steps": accumulate, **options}  # of 5 batches: 2 and 3 leave a rest

    class Ours(AdversarialMixin, base):
        pass

    def trained(trainer, **kwargs):
        return run(trainer, tmp_path, make(), examples(10, words=words), options, **keywords, **kwargs)

    ours, theirs = trained(Ours, method=Plain()), trained(base)
    assert same(weights(ours.model), weights(theirs.model))
    assert history(ours, "loss", "grad_norm", "epoch") == history(theirs, "loss", "grad_norm", "epoch")
    assert not same(weights(ours.model), weights(make()))


def test_a_training_step_of_ones_own_is_a_pass_and_no_part_of_the_self_check(tmp_path):
    class Ours(AdversarialMixin, OwnStep):
        passes = 0

        def compute_loss(self, *args, **kwargs):
            self.passes += 1
            return super().compute_loss(*args, **kwargs)

    trainer = run(Ours, tmp_path, method=FreeLB(steps=2))
    assert trainer.steps == 2 * 10
    assert trainer.passes == 2 * 10 + 3


class InOrder(AdversarialTrainer):
    """Reads the data from first to last."""

    def _get_train_sampler(self, *_):
        return SequentialSampler(self.train_dataset)


CONSTANT = {"lr_scheduler_type": "constant", "optim": "adamw_torch", "weight_decay": 0.0}


@pytest.mark.parametrize("accumulate", [1, 2])
def test_freelb_in_the_trainer_is_freelb_in_the_plain_loop_bit_for_bit(accumulate, tmp_path):
    options = {"gradient_accumulation_steps": accumulate, **CONSTANT}
    model = classifier(dropout=0)  # the loops draw their orders, and so the masks, at other moments
    keywords = {"method": FreeLB(), "compute_loss_func": summed}
    trainer = run(InOrder, tmp_path, classifier(dropout=0), examples(8), options, **keywords)
    batches = [collate(examples(8)[i : i + 2]) for i in range(0, 8, 2)]
    optimizer = AdamW(model.parameters(), lr=1e-2, weight_decay=0)
    fit(model, batches, FreeLB(), optimizer, epochs=2, accumulate=accumulate)
    assert same(weights(trainer.model), weights(model))


def test_micro_batches_of_unequal_sizes_are_the_one_big_batch(tmp_path):
    def trained(size, accumulate):
        options = {
            "per_device_train_batch_size": size,
            "gradient_accumulation_steps": accumulate,
            "optim": "sgd",
            "learning_rate": 1.0,
            "num_train_epochs": 1,
        }
        # left to itself the Trainer adds up a classifier's means instead of averaging them
        keywords = {"method": FreeLB(start=0, unit=1.0), "compute_loss_func": summed}
        model = classifier(dropout=0).double()
        return weights(run(AdversarialTrainer, tmp_path, model, examples(7), options, **keywords).model)

    big = trained(7, 1)
    assert furthest(trained(3, 3), big) < 1e-12  # of 3, 3 and 1
    assert furthest(trained(5, 2), big) < 1e-12  # of 5 and 2


def test_gradient_checkpointing_changes_nothing(tmp_path):
    def trained(**options):
        return weights(run(AdversarialTrainer, tmp_path, options=options, method=FreeLB()).model)

    known = {field.name for field in dataclasses.fields(TrainingArguments)}
    name = "activation_checkpointing"  # the older name has become a deprecated one
    name = name if name in known else "gradient_checkpointing"
    assert same(trained(**{name: True}), trained())


class Regular(Method):
    """Adds a regulariser that is the mean of something over the examples: here of the logits' squares."""

    def play(self, game):
        outputs = game.outputs()
        game.backward(outputs.loss + game.weight * outputs.logits.square().mean())
        return outputs.loss

    @property
    def passes(self):
        return Passes(full=1)


def test_a_regulariser_is_a_mean_over_the_examples_of_the_step(tmp_path):
    def trained(size, accumulate):
        options = {
            "per_device_train_batch_size": size,
            "gradient_accumulation_steps": accumulate,
            "optim": "sgd",
            "learning_rate": 1.0,
            "num_train_epochs": 1,
        }
        keywords = {"method": Regular(), "compute_loss_func": summed}
        model = classifier(dropout=0).double()
        return weights(run(AdversarialTrainer, tmp_path, model, examples(7), options, **keywords).model)

    assert furthest(trained(3, 3), trained(7, 1)) < 1e-12


# -- what a method asks of a loop --------------------------------------------------------------------------


def test_a_method_is_told_the_length_of_the_run_and_called_after_each_step(tmp_path):
    method = Asking()
    trainer = run(AdversarialTrainer, tmp_path, options={"gradient_accumulation_steps": 2}, method=method)
    assert method.told == (6, 3)
    assert method.steps == [0, 0, 1, 1, 2, 3, 3, 4, 4, 5]
    assert len(method.norms) == trainer.state.global_step == 6
    method = Asking()
    run(AdversarialTrainer, tmp_path, options={"max_steps": 4}, method=method)
    assert method.told == (4, 5)
    assert method.steps == [0, 1, 2, 3]


def test_own_parameters_learn_and_are_clipped_apart_from_the_models(tmp_path):
    huge, tiny = Asking(scale=1e6), Asking(scale=1e-6)
    options = {"max_grad_norm": 0.1, "gradient_accumulation_steps": 2}
    clipped = run(AdversarialTrainer, tmp_path, options=options, method=huge)
    free = run(AdversarialTrainer, tmp_path, options=options, method=tiny)
    assert same(weights(clipped.model), weights(free.model))
    assert history(clipped, "grad_norm") == history(free, "grad_norm")
    assert huge.norms == pytest.approx([0.1] * 6)
    losses = [loss for (loss,) in history(free, "loss")]
    expected = [1e-6 * 3**0.5 * loss for loss in losses]  # each step's alone; logged in four digits
    assert tiny.norms == pytest.approx(expected, rel=1e-3)
    assert not torch.equal(huge.own, torch.ones(3))
    assert [group["lr"] for group in clipped.optimizer.param_groups] != [0.5] * 3


def test_an_optimizer_of_ones_own_keeps_its_groups_and_gets_the_hook(tmp_path):
    method, model = Asking(), classifier()
    optimizer = AdamW([{"params": model.parameters()}, *method.param_groups()], lr=1e-2)
    trainer = run(AdversarialTrainer, tmp_path, model, method=method, optimizers=(optimizer, None))
    assert len(optimizer.param_groups) == 2
    assert len(method.norms) == 10
    trainer.train()
    assert len(method.norms) == 20  # hooked once
    method, model = Asking(), classifier()
    optimizer = AdamW(model.parameters(), lr=1e-2)
    with pytest.raises(InputError, match=r"add \*method.param_groups\(\)"):
        run(AdversarialTrainer, tmp_path, model, method=method, optimizers=(optimizer, None))


def test_the_figures_and_the_status_line_are_logged(tmp_path, caplog):
    caplog.set_level("INFO", logger="sparring")
    trainer = run(AdversarialTrainer, tmp_path, options={"logging_steps": 5}, method=FreeLB())
    logged = history(trainer, "loss", "adv/loss_adv", "adv/delta_norm", "adv/skipped")
    assert len(logged) == 2
    for loss, adversarial, norm, skipped in logged:
        assert adversarial == pytest.approx(loss, rel=0.1)
        assert norm > 0
        assert skipped == 0
    (line,) = [record.getMessage() for record in caplog.records if record.name.startswith("sparring")]
    assert line.startswith("FreeLB(")
    assert "bert.embeddings.word_embeddings" in line


def test_model_init_starts_the_method_anew_with_the_model(tmp_path):
    def model_init():
        return classifier()

    def trainer(kind, **kwargs):
        data = {"train_dataset": examples(10), "data_collator": collate}
        return kind(model_init=model_init, args=arguments(tmp_path), **data, **kwargs)

    adversarial = trainer(AdversarialTrainer, method=Delayed(FreeLB(), start_step=3))
    adversarial.train()
    first = weights(adversarial.model)
    adversarial.train()
    assert same(weights(adversarial.model), first)
    plain, theirs = trainer(AdversarialTrainer, method=Plain()), trainer(Trainer)
    plain.train()
    theirs.train()
    assert same(weights(plain.model), weights(theirs.model))


class NoLoss(nn.Module):
    """Returns no loss, and is no Hugging Face model."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.words = nn.Embedding(40, 8)
        self.head = nn.Linear(8, 2)

    def forward(self, input_ids, attention_mask):
        kept = self.words(input_ids) * attention_mask[..., None]
        return self.head(torch.tanh(kept.sum(1)))


class Scoring(AdversarialMixin, Trainer):
    def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
        labels = inputs.pop("labels")
        logits = model(inputs["input_ids"], inputs["attention_mask"])
        loss = nn.functional.cross_entropy(logits, labels)
        return (loss, {"logits": logits}) if return_outputs else loss


def test_a_model_without_a_loss_trains_by_the_trainers_compute_loss(tmp_path):
    options = {"remove_unused_columns": False}  # else the labels, which its forward doesn't take, are dropped
    trainer = run(Scoring, tmp_path, NoLoss(), options=options, method=FreeLB())
    assert not same(weights(trainer.model), weights(NoLoss()))


@pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")  # peft's
def test_lora_learns_while_the_embeddings_stay_frozen(tmp_path):
    base = classifier()
    before = base.bert.embeddings.word_embeddings.weight.clone()
    config = LoraConfig(task_type="SEQ_CLS", r=2, target_modules=["query", "value"])
    model = get_peft_model(base, config)
    start = weights(model)
    trainer = run(AdversarialTrainer, tmp_path, model, method=FreeLB())
    moved = {name for name, tensor in weights(trainer.model).items() if not torch.equal(tensor, start[name])}
    trainable = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    assert moved == trainable
    assert torch.equal(base.bert.embeddings.word_embeddings.weight, before)
    assert all(norm > 0 for (norm,) in history(trainer, "adv/delta_norm"))


# -- evaluation --------------------------------------------------------------------------------------------


class Falling:
    """A robust metric that says what it is given to say, and draws from the global random stream."""

    def __init__(self, *values):
        self.values, self.seen = list(values), []

    def __call__(self, model, dataloader):
        assert not model.training
        batches = list(dataloader)
        torch.rand(5)
        self.seen.append(sum(len(batch["labels"]) for batch in batches))
        return {"attacked_accuracy": self.values[len(self.seen) - 1]}


def test_the_best_model_can_be_the_one_that_stood_the_attack_best(tmp_path):
    options = {
        "num_train_epochs": 3,
        "eval_strategy": "epoch",
        "save_strategy": "epoch",
        "load_best_model_at_end": True,
        "metric_for_best_model": "attacked_accuracy",
    }
    metric = Falling(0.4, 0.7, 0.5)
    keywords = {"method": FreeLB(), "robust_metric": metric, "eval_dataset": examples(6)}
    trainer = run(AdversarialTrainer, tmp_path, options=options, **keywords)
    assert metric.seen == [6, 6, 6]
    assert trainer.state.best_metric == 0.7
    assert trainer.state.best_model_checkpoint.endswith("checkpoint-10")
    saved = load_file(tmp_path / "checkpoint-10" / "model.safetensors")
    assert same(weights(trainer.model), saved)
    logged = [entry["eval_attacked_accuracy"] for entry in trainer.state.log_history if "eval_loss" in entry]
    assert logged == [0.4, 0.7, 0.5]


def test_early_stopping_can_go_by_it(tmp_path):
    options = {
        "num_train_epochs": 5,
        "eval_strategy": "epoch",
        "save_strategy": "epoch",
        "load_best_model_at_end": True,
        "metric_for_best_model": "eval_attacked_accuracy",
    }
    keywords = {
        "robust_metric": Falling(0.7, 0.6, 0.5, 0.9),
        "eval_dataset": examples(4),
        "callbacks": [EarlyStoppingCallback(early_stopping_patience=2)],
    }
    trainer = run(AdversarialTrainer, tmp_path, options=options, method=Plain(), **keywords)
    assert trainer.state.global_step == 15


def test_an_attack_between_epochs_does_not_move_the_training(tmp_path):
    def trained(**kwargs):
        options = {"eval_strategy": "epoch"}
        keywords = {"method": FreeLB(), "eval_dataset": examples(4), **kwargs}
        return weights(run(AdversarialTrainer, tmp_path, options=options, **keywords).model)

    assert same(trained(robust_metric=Falling(0.1, 0.2)), trained())


def test_each_of_several_evaluation_sets_is_attacked_and_predictions_are_not(tmp_path):
    metric = Falling(0.1, 0.2, 0.3)
    keywords = {"method": Plain(), "robust_metric": metric}
    trainer = run(AdversarialTrainer, tmp_path, **keywords)
    found = trainer.evaluate({"one": examples(2), "two": examples(4)})
    assert (found["eval_one_attacked_accuracy"], found["eval_two_attacked_accuracy"]) == (0.1, 0.2)
    predicted = trainer.predict(examples(2))
    assert "test_attacked_accuracy" not in predicted.metrics
    assert metric.seen == [2, 4]


# -- what is refused ---------------------------------------------------------------------------------------


def test_what_no_method_can_run_under_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"method is .*FreeLB.*, but must be a method such as FreeLB\(\)"):
        run(AdversarialTrainer, tmp_path, method=FreeLB)
    with pytest.raises(InputError, match=r"the Trainer can't replay batches, as Asking wants: use loops.fit"):
        run(AdversarialTrainer, tmp_path, method=Asking(replays=2))

    class Mute(Trainer):
        def training_step(self, model, inputs, *args, **kwargs):
            return torch.zeros(())

    class Muted(AdversarialMixin, Mute):
        pass

    with pytest.raises(InputError, match=r"the training_step of Muted calls no accelerator.backward"):
        run(Muted, tmp_path, method=Plain())


def test_a_setting_that_no_method_can_run_under_is_named(tmp_path, monkeypatch):
    def refused(message, **options):
        with pytest.raises(InputError, match=message):
            AdversarialTrainer(model=classifier(), args=arguments(tmp_path, **options), method=Plain())

    refused("LOMO updates the weights within a backward", optim="lomo")
    with monkeypatch.context() as patch:
        patch.setattr(TrainingArguments, "n_gpu", 2)
        refused("DataParallel would split the batch")
    monkeypatch.setattr(Accelerator, "distributed_type", DistributedType.FSDP)
    refused("the Trainer under FSDP can't run a method yet: use DDP")
