"""`sparring predict`: label texts with a model."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sparring.cli import console
from sparring.cli.folder import DEFAULT, RunFolder, check_there
from sparring.cli.texts import Texts
from sparring.data import Examples, LabelSet
from sparring.errors import InputError
from sparring.method import check


@dataclass(frozen=True, kw_only=True)
class Options(Texts):
    """Label texts with a model.

    Args:
        model: a folder that `sparring train` wrote, or another classifier.
        text: one or more texts, in place of data.
        pair: their second texts, where the model takes pairs.
        split: of a data set that has several; its test data where left out.
        batch_size: texts in a forward.
        max_length: tokens after which a text is cut; as in training where left out.
        output: a file for the answers, one line of JSON each; printed where left out.
    """

    model: str = DEFAULT
    text: list[str] = field(default_factory=list)
    pair: list[str] = field(default_factory=list)
    split: str | None = None
    batch_size: int = 64
    max_length: int | None = None
    output: str | None = None


def run(options: Options) -> int:
    """Print or write a label and its probability for each text."""
    check("batch_size", options.batch_size, least=1)
    check_there(options.model)
    examples = _examples(options)

    from sparring.tasks import classification

    model, tokenizer = classification.load_model(options.model)
    trained = RunFolder(options.model).known().get("arguments", {})
    length = options.max_length or trained.get("max_length", 128)
    features = classification.features(examples, tokenizer, max_length=length)
    collate = classification.collator(tokenizer)
    logits = classification.predict(model, features, collate, batch_size=options.batch_size)
    labels = LabelSet.from_config(model.config.id2label or {})
    answers = list(_answers(examples, logits.softmax(1).tolist(), labels))
    lines = "".join(json.dumps(answer, ensure_ascii=False) + "\n" for answer in answers)
    if options.output is not None:
        Path(options.output).write_text(lines, encoding="utf-8")
        console.facts([("Saved", f"{options.output}: {len(examples):,} answers")])
    elif options.text:
        texts = ["text", "pair"] if options.pair else ["text"]
        rows = [[a["label"], f"{a['probability']:.3f}", *(a[name] for name in texts)] for a in answers]
        console.table(["label", "probability", *texts], rows, text=4)
    else:
        sys.stdout.write(lines)
    return 0


def _examples(options: Options) -> Examples:
    """The texts given, else those of the data."""
    if not options.text:
        if options.pair:
            raise InputError("--pair gives the second texts: give the first ones as --text")
        if options.data is not None and Path(options.data) == Path(options.output or ""):
            raise InputError(f"--output {options.output} would replace the data")
        return options.read_test(part=options.split, require_labels=False)
    if options.data is not None:
        raise InputError("--text and --data both say what to label: give one of them")
    if options.pair and len(options.pair) != len(options.text):
        raise InputError(
            f"{len(options.text)} texts as --text, but {len(options.pair)} second texts as --pair"
        )
    if not all(text.strip() for text in [*options.text, *options.pair]):
        raise InputError("a text is empty: give every --text and --pair a word")
    return Examples(options.text, options.pair or None, source="--text")


def _answers(
    examples: Examples, probabilities: list[list[float]], labels: LabelSet
) -> Iterator[dict[str, Any]]:
    for i, row in enumerate(probabilities):
        best = max(range(len(row)), key=row.__getitem__)
        yield {
            "text": examples.texts[i],
            **({"pair": examples.pairs[i]} if examples.pairs is not None else {}),
            "label": labels.names[best],
            "probability": round(row[best], 6),
            "probabilities": {name: round(x, 6) for name, x in zip(labels.names, row, strict=True)},
        }
