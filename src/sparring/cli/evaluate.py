"""`sparring evaluate`: how accurate models are, and how robust."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from sparring.attacks import EmbeddingPGD
from sparring.cli import console
from sparring.cli.choice import ball_of
from sparring.cli.comparison import RESULTS, Found, Subject, show, write
from sparring.cli.folder import DEFAULT, RunFolder, check_free, check_there
from sparring.cli.texts import Texts
from sparring.data import Examples, LabelSet, subset
from sparring.errors import InputError
from sparring.evaluation import RADII, by_length, evaluate, find_leaks
from sparring.method import check
from sparring.tasks import classification


@dataclass(frozen=True, kw_only=True)
class Attack:
    """Attack.

    Args:
        radii: in mean norms of a word embedding; the norm of a whole text's perturbation.
        attack_steps: ascent steps.
        attack_step_size: the norm of a step; where left out, 2.5 times the radius by the steps.
        attack_restarts: how often it starts, first from the text, then from random points.
        norm: of the perturbation.
        over: what the norm is taken over.
        seed: of random starts and noise.
    """

    radii: list[float] = field(default_factory=lambda: list(RADII))
    attack_steps: int = 10
    attack_step_size: float | None = None
    attack_restarts: int = 1
    norm: Literal["l2", "linf", "l1"] = "l2"
    over: Literal["example", "token"] = "example"
    seed: int = 0

    def build(self, unit: float | None) -> EmbeddingPGD:
        """The attack.

        Raises:
            InputError: a number that makes no sense.
        """
        return EmbeddingPGD(
            steps=self.attack_steps,
            step_size=self.attack_step_size,
            restarts=self.attack_restarts,
            ball=ball_of(self.norm, over=self.over),
            unit=unit,
            seed=self.seed,
        )


@dataclass(frozen=True, kw_only=True)
class Options(Attack, Texts):
    """Measure accuracy, calibration, and accuracy under attack over a range of radii.

    Args:
        model: one or more folders that `sparring train` wrote, or other classifiers, to compare.
        split: of a data set that has several; its test data where left out.
        limit: evaluate so many of the examples only.
        batch_size: examples in a forward.
        max_length: tokens after which a text is cut; as in training where left out.
        output: a folder for results, plot and each example's answers; where left out, `evaluation` in that of
            the model.
        overwrite: replace the evaluation in that folder.
    """

    model: list[str] = field(default_factory=lambda: [DEFAULT])
    split: str | None = None
    limit: int | None = None
    batch_size: int = 32
    max_length: int | None = None
    output: str | None = None
    overwrite: bool = False


def run(options: Options) -> int:
    """Evaluate each model; write and show what was found."""
    _check(options)
    subjects = _subjects(options.model)
    output = Path(options.output or Path(options.model[0]) / "evaluation")
    check_free(output, output / RESULTS, "evaluation", overwrite=options.overwrite)
    console.title(f"Evaluating {', '.join(subject.name for subject in subjects)}")
    examples = _examples(options, subjects[0])
    console.facts([("Data", f"{examples.source}: {len(examples):,} examples")])
    units: dict[Any, float] = {}
    found = []
    for subject in subjects:
        # Models made of one base are compared at equal absolute radii, in the unit of the first.
        base = subject.arguments.get("model", subject.path)
        one = _evaluated(options, subject, examples, units.get(base, subject.known.get("unit")))
        units.setdefault(base, one.evaluation.unit)
        found.append(one)
    write(output, found, {"arguments": asdict(options)}, examples)
    show(output, found)
    return 0


def _check(options: Options) -> None:
    """Refuse numbers that make no sense, before anything is read."""
    numbers = {"limit": options.limit, "max_length": options.max_length, "batch_size": options.batch_size}
    for name, number in numbers.items():
        if number is not None:
            check(name, number, least=1)
    for radius in options.radii:
        check("radii", radius, least=0)
    options.build(unit=None)


def _subjects(paths: list[str]) -> list[Subject]:
    found: dict[str, Subject] = {}
    for path in paths:
        check_there(path)
        name = Path(path).name if Path(path).name not in found else path
        if name in found:
            raise InputError(f"--model {path} is given twice")
        found[name] = Subject(name, path, RunFolder(path).known())
    return list(found.values())


def _examples(options: Options, first: Subject) -> Examples:
    """Those asked for; else the test data that the first model's run set apart."""
    if options.data is None and first.known:
        flags = {name: first.arguments[name] for name in asdict(Texts())}
        apart = {name: first.arguments[name] for name in ("validation", "test")}
        examples = Texts(**flags).read_split(**apart).test
    else:
        examples = options.read_test(part=options.split)
    return examples if options.limit is None else subset(examples, options.limit)


def _evaluated(options: Options, subject: Subject, examples: Examples, unit: float | None) -> Found:
    model, tokenizer = classification.load_model(subject.path)
    labels = LabelSet.from_config(model.config.id2label or {})
    length = options.max_length or subject.arguments.get("max_length", 128)
    features = classification.features(examples, tokenizer, max_length=length, labels=labels)
    collate, hashes = classification.collator(tokenizer), examples.hashes()
    leaks = find_leaks(hashes, subject.hashes())
    batches = by_length([len(feature["input_ids"]) for feature in features], options.batch_size)
    with closing(console.Bar(subject.name, len(batches))) as bar:

        def collated() -> Iterator[Any]:
            for number, rows in enumerate(batches):
                bar.at(number)
                yield collate([features[row] for row in rows])

        evaluation = evaluate(
            model,
            collated(),
            attack=options.build(unit),
            radii=options.radii,
            order=[row for rows in batches for row in rows],
            hashes=hashes,
        )
    _warn(options, subject, [leaks.warning(), *evaluation.warnings])
    return Found(subject, evaluation, leaks)


def _warn(options: Options, subject: Subject, warnings: list[str | None]) -> None:
    """What to doubt of a model's numbers."""
    name = f"{subject.name}: " if len(options.model) > 1 else ""
    if not subject.known:
        console.warn(
            f"{name}`sparring train` didn't make this model, so its training texts aren't known, and radii "
            f"are in its own unit, which differs from that of another model"
        )
    for warning in warnings:
        if warning is not None:
            console.warn(f"{name}{warning}")
