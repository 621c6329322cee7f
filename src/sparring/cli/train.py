"""`sparring train`: fine-tune a classifier with a method, and save it as a plain Hugging Face folder."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from sparring.cli import console, record
from sparring.cli.choice import Choice, kind_of
from sparring.cli.folder import DEFAULT, RunFolder, write_json
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
        output: the folder of the run, for the model, its results and its configuration.
        save_steps: write a checkpoint every N steps too, not only after each epoch.
        resume: go on with the run in that folder from its last complete checkpoint, bit for bit.
        overwrite: replace the run in that folder.
    """

    output: str = DEFAULT
    save_steps: int = 0
    resume: bool = False
    overwrite: bool = False


@dataclass(frozen=True, kw_only=True)
class Options(Output, Training, Texts):
    """Fine-tune a classifier, plainly or adversarially, and save it as a Hugging Face folder.

    Args:
        model: a Hugging Face folder or the name of a hub model; where left out, MiniLM-L6.
        max_length: tokens after which a text is cut.
        validation: a file of its own; where the data have none, a tenth of the training data.
        test: likewise.
        train_size: train on so many of the training examples only.
        held_out_size: measure on so many of the validation and of the test examples only.
        method: the method, and its arguments.
        start_step: train plainly before this step.
        every: play the method on every N-th step only, and train plainly on the others.
    """

    model: str | None = None
    max_length: int = 128
    validation: str | None = None
    test: str | None = None
    train_size: int | None = None
    held_out_size: int | None = None
    method: Choice = field(default_factory=Choice)
    start_step: int = 0
    every: int = 1

    def config(self) -> dict[str, Any]:
        """As `config.yaml` writes it: all that makes the result, and where it goes."""
        kept = {name: value for name, value in asdict(self).items() if name not in ("resume", "overwrite")}
        return {**kept, "method": self.method.as_dict()}


def run(options: Options) -> int:
    """Train and save."""
    _check(options)
    method = options.method.build(seed=options.seed, start_step=options.start_step, every=options.every)
    folder = RunFolder(options.output)
    if options.resume:
        folder.check_same(options.config())
        if folder.results.is_file():
            print(f"{folder.path} has ended already: see {folder.results}")
            return 0
    else:
        folder.check_free(overwrite=options.overwrite)

    from sparring.cli import training  # transformers takes seconds to import, and nothing above needs it

    console.title(f"Training with {kind_of(options.method.name).__name__}")
    data = _data(options)
    labels = LabelSet.of(data.train)
    console.facts([("Labels", _shares(data.train, labels))])
    job = training.prepare(options, data, labels, method, folder)
    if not options.resume:
        folder.begin(options.config())
    folder.keep_texts(data.train.hashes())
    try:
        fitted = training.fit(job)
    except InputError:
        folder.forget()
        raise
    metrics = training.save(job)
    found = {"metrics": metrics, "training": fitted, "labels": list(labels.names)}
    write_json(folder.results, {**found, **_about(options, data, method)})
    _close(folder, method, fitted, metrics)
    return 0


def _check(options: Options) -> None:
    """Refuse numbers that make no sense, before anything is read."""
    numbers = asdict(options)
    for name in ("epochs", "batch_size", "accumulate"):
        check(name, numbers[name], least=1)
    for name in ("weight_decay", "warmup", "save_steps", "seed"):
        check(name, numbers[name], least=0)
    check("learning_rate", options.learning_rate, above=0)
    for name in ("train_size", "held_out_size"):
        if numbers[name] is not None:
            check(name, numbers[name], least=1)
    if options.warmup > 1:
        raise InputError(f"warmup is {options.warmup}, but must be a share of the steps, from 0 to 1")


def _data(options: Options) -> Split:
    data = options.read_split(validation=options.validation, test=options.test)
    console.facts([("Data", f"{data.train.source}: {data.summary()}")])
    if options.train_size is not None:
        data = replace(data, train=subset(data.train, options.train_size))
    if options.held_out_size is not None:
        validation, test = (subset(part, options.held_out_size) for part in (data.validation, data.test))
        data = replace(data, validation=validation, test=test)
    if options.train_size is not None or options.held_out_size is not None:
        used = ", ".join(f"{part} {count:,}" for part, count in data.counts.items())
        console.facts([("", f"used of these: {used}, each label in proportion")])
    return data


def _shares(examples: Examples, labels: LabelSet) -> str:
    counts = Counter(labels.encode(examples))
    return ", ".join(f"{name} {counts[i] / len(examples):.1%}" for i, name in enumerate(labels.names))


def _in_word_embeddings(method: Choice) -> bool:
    """Whether the method's unit is the mean norm of a word embedding, which `evaluate` gives radii in."""
    site = method.arguments.get("site") or {}
    return method.arguments.get("unit") is None and site.get("kind", "embeddings") == "embeddings"


def _about(options: Options, data: Split, method: Method) -> dict[str, Any]:
    """What `results.json` says beside what was found."""
    return {
        "method": method.describe(),
        "passes_per_batch": vars(method.passes),
        "unit": method.unit if _in_word_embeddings(options.method) else None,
        "seed": options.seed,
        "arguments": options.config(),
        "data": {
            "source": data.train.source,
            "rule": data.rule,
            "counts": data.counts,
            "sha256": {
                "train": data.train.data_hash(),
                "validation": data.validation.data_hash(),
                "test": data.test.data_hash(),
            },
            "train_hashes": RunFolder(options.output).hashes.name,
        },
        "peak_memory": record.peak_memory(),
        **record.provenance(),
    }


def _close(
    folder: RunFolder, method: Method, fitted: dict[str, Any], metrics: dict[str, dict[str, float]]
) -> None:
    """The closing table, what it cost, and where everything is."""
    if fitted["skipped_ascent_steps"]:
        console.warn(
            f"{fitted['skipped_ascent_steps']} ascent steps were skipped: their gradients weren't finite"
        )
    rows = [[part, *(f"{found[key]:.3f}" for key in MEASURES)] for part, found in metrics.items()]
    print()
    console.table(["", *MEASURES.values()], rows)
    print()
    time, passes = console.duration(fitted["seconds"]), Passes(**fitted["passes"])
    memory = max(record.peak_memory().values(), default=0) / 2**20
    cost = (
        f"{time} for {fitted['steps']:,} steps, {passes} passes ({method.passes} a batch), {memory:,.0f} MiB"
    )
    console.facts(
        [
            ("Cost", cost),
            (
                "Saved",
                f"{folder.path}, which transformers opens as it is; all numbers in {folder.results.name}",
            ),
            ("Next", f"sparring evaluate --model {folder.path}"),
        ]
    )
