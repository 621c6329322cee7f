"""`sparring train`: fine-tune a classifier with a method, and save it as a plain Hugging Face folder."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from sparring.cli import console, record
from sparring.cli.choice import Choice
from sparring.cli.folder import RunFolder
from sparring.cli.texts import Texts
from sparring.data import Examples, LabelSet, Split, subset
from sparring.errors import InputError
from sparring.method import Method, Passes, check

MEASURES = {"accuracy": "accuracy", "macro_f1": "macro F1", "calibration_error": "calibration error"}


@dataclass(frozen=True, kw_only=True)
class Training:
    """Training.

    Args:
        epochs: passes over the training data.
        batch_size: examples in a forward.
        accumulate: batches in an optimizer step.
        learning_rate: the highest; it falls linearly to 0.
        weight_decay: of AdamW.
        warmup: the share of the steps in which the learning rate rises.
        seed: of the head, the order of the data, dropout and the method's random starts.
        bf16: compute in bfloat16 where that is safe; the weights stay in float32.
        select: keep the model of the last epoch, or of the one best on the validation data.
    """

    epochs: int = 3
    batch_size: int = 32
    accumulate: int = 1
    learning_rate: float = 5e-5
    weight_decay: float = 0.01
    warmup: float = 0.1
    seed: int = 0
    bf16: bool = False
    select: Literal["last", "best"] = "last"


@dataclass(frozen=True, kw_only=True)
class Output:
    """Output.

    Args:
        output: the folder of the run, where the model, its results and its configuration go.
        save_steps: write a checkpoint every N steps too, not only after each epoch.
        resume: go on with the run in that folder from its last complete checkpoint, bit for bit.
        overwrite: replace the run in that folder.
    """

    output: str = "runs/default"
    save_steps: int = 0
    resume: bool = False
    overwrite: bool = False


@dataclass(frozen=True, kw_only=True)
class Options(Output, Training, Texts):
    """Fine-tune a classifier, plainly or adversarially, and save it as a Hugging Face folder.

    Args:
        model: a Hugging Face folder or the name of a hub model; MiniLM-L6 where left out.
        max_length: tokens after which a text is cut.
        validation: a file of its own, where the data have none; else a tenth of the training data.
        test: likewise.
        train_size: train on so many of the training examples only.
        method: by its name.
        start_step: train plainly before this step.
        every: play the method on every N-th step only, and train plainly on the rest.
    """

    model: str | None = None
    max_length: int = 128
    validation: str | None = None
    test: str | None = None
    train_size: int | None = None
    method: Choice = Choice()
    start_step: int = 0
    every: int = 1

    def config(self) -> dict[str, Any]:
        """As `config.yaml` writes it: all that makes the result, and where it goes."""
        found = {name: value for name, value in asdict(self).items() if name not in ("resume", "overwrite")}
        return {**found, "method": self.method.as_dict()}


def run(options: Options) -> int:
    """Train and save."""
    _check(options)
    method = options.method.build(seed=options.seed, start_step=options.start_step, every=options.every)
    folder = RunFolder(options.output)
    if options.resume:
        folder.check_same(options.config())
        if folder.results.is_file():
            console.note(f"{folder.path} has ended already: see {folder.results}")
            return 0
    else:
        folder.check_free(overwrite=options.overwrite)

    from sparring.cli import training  # transformers takes seconds to import, and the checks above need none of it

    console.title(f"Training with {options.method.name}")
    data = _data(options)
    labels = LabelSet.of(data.train)
    console.facts([("Labels", _shares(data.train, labels))])
    job = training.prepare(options, data, labels, method, folder)
    if options.resume:
        folder.check_texts(data.train.hashes())
    else:
        folder.begin(options.config(), data.train.hashes())
    fitted = training.fit(job)
    metrics = training.save(job)
    folder.end(_results(options, data, labels, method, fitted, metrics))
    _close(folder, method, fitted, metrics)
    return 0


def _data(options: Options) -> Split:
    data = options.parts(validation=options.validation, test=options.test)
    console.facts([("Data", f"{data.train.source}: {data.summary()}")])
    if options.train_size is None:
        return data
    train = subset(data.train, options.train_size)
    console.facts([("", f"{len(train):,} of the training examples are used, each label in proportion")])
    return replace(data, train=train)


def _shares(examples: Examples, labels: LabelSet) -> str:
    counts = Counter(labels.encode(examples))
    return ", ".join(f"{name} {counts[i] / len(examples):.1%}" for i, name in enumerate(labels.names))


def _results(
    options: Options, data: Split, labels: LabelSet, method: Method, fitted: dict[str, Any], metrics: dict[str, Any]
) -> dict[str, Any]:
    """What `results.json` says."""
    return {
        "metrics": metrics,
        "labels": list(labels.names),
        "method": method.describe(),
        "passes_per_batch": vars(method.passes),
        "unit": method.unit,
        "training": fitted,
        "peak_memory": record.peak_memory(),
        "seed": options.seed,
        "arguments": options.config(),
        "data": {
            "source": data.train.source,
            "rule": data.rule,
            "counts": data.counts,
            "sha256": {name: getattr(data, name).data_hash() for name in data.counts},
            "train_hashes": RunFolder(options.output).hashes.name,
        },
        "versions": record.versions(),
        "commits": record.commits(),
        "machine": record.machine(),
        "settings": record.settings(),
    }


def _close(folder: RunFolder, method: Method, fitted: dict[str, Any], metrics: dict[str, Any]) -> None:
    """The closing table, and where everything is."""
    console.note()
    rows = [[part, *(f"{found[key]:.3f}" for key in MEASURES)] for part, found in metrics.items()]
    console.table(["", *MEASURES.values()], rows)
    console.note()
    passes, time = Passes(**fitted["passes"]), console.duration(fitted["seconds"])
    memory = max(record.peak_memory().values(), default=0)
    skipped = fitted["skipped_ascent_steps"]
    if skipped:
        console.warn(f"{skipped} ascent steps were skipped, because their gradients weren't finite")
    console.facts(
        [
            ("Cost", f"{time}, {fitted['steps']} steps of {method.passes} each, {passes} in all, {memory / 2**20:,.0f} MiB at most"),
            ("Saved", f"{folder.path}, a model that transformers opens; {folder.results.name} has all numbers"),
            ("Next", f"sparring evaluate --model {folder.path}"),
        ]
    )


def _check(options: Options) -> None:
    """Refuse numbers that make no sense, before anything is read."""
    for name in ("epochs", "batch_size", "accumulate", "train_size"):
        if getattr(options, name) is not None:
            check(name, getattr(options, name), least=1)
    for name in ("weight_decay", "warmup", "save_steps", "seed"):
        check(name, getattr(options, name), least=0)
    check("learning_rate", options.learning_rate, above=0)
    if options.warmup > 1:
        raise InputError(f"warmup is {options.warmup}, but is a share of the steps: from 0 to 1")
