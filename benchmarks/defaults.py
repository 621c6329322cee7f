"""Choose each method's default sizes on validation data: sizes x models x tasks x seeds.

    python benchmarks/defaults.py --task reviews=reviews.csv --task trec=trec.csv --model l6=FOLDER
    python benchmarks/defaults.py --table

Resumable, one json a run. A task is a csv with the columns text, label and split (train or validation).
Every run takes the same 600 training and 500 validation texts of its task; the seed sets the head, the order
and dropout, the same for every method, so that differences are paired.
"""

from __future__ import annotations

import argparse
import csv
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from sparring import FGM, FGSM, L2, PGD, FreeLB, Method, Plain

RESULTS = Path(__file__).parent / "results" / "defaults"
TRAIN, VALIDATION, EPOCHS, BATCH, LEARNING_RATE, MAX_LENGTH = 600, 500, 3, 32, 1e-4, 48

CANDIDATES: dict[str, Callable[[], Method]] = {
    "plain": Plain,
    **{f"freelb-{x}": lambda x=x: FreeLB(step_size=x, start=x) for x in (0.02, 0.05, 0.1, 0.2)},
    **{f"fgm-{x}": lambda x=x: FGM(epsilon=x) for x in (0.05, 0.15, 0.3, 0.6)},
    **{f"pgd-{x}": lambda x=x: PGD(step_size=x / 2, ball=L2(x)) for x in (0.1, 0.2, 0.4)},
    **{f"fgsm-{x}": lambda x=x: FGSM(epsilon=x) for x in (0.001, 0.003, 0.01, 0.03)},
}


def read(path: str, split: str, count: int) -> tuple[list[str], list[str]]:
    """The first texts of a part of a task, and their labels."""
    with Path(path).open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["split"] == split][:count]
    return [row["text"] for row in rows], [row["label"] for row in rows]


def run(folder: str, data: str, build: Callable[[], Method], seed: int) -> dict[str, Any]:
    """One training and its validation accuracy."""
    from transformers import (
        AutoModelForSequenceClassification,
        AutoTokenizer,
        get_linear_schedule_with_warmup,
    )

    texts, names = read(data, "train", TRAIN)
    held_out, held_out_names = read(data, "validation", VALIDATION)
    ids = {name: i for i, name in enumerate(sorted(set(names)))}
    torch.manual_seed(seed)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(
        folder, num_labels=len(ids), dtype=torch.float32
    )

    def batch(texts: list[str], names: list[str]) -> dict[str, torch.Tensor]:
        encoded = tokenizer(texts, truncation=True, max_length=MAX_LENGTH, padding=True, return_tensors="pt")
        return {**encoded, "labels": torch.tensor([ids[name] for name in names])}

    method = build()
    steps = EPOCHS * -(-len(texts) // BATCH)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE)
    schedule = get_linear_schedule_with_warmup(optimizer, steps // 10, steps)
    order = torch.Generator().manual_seed(seed)
    start = time.perf_counter()
    model.train()
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(texts), generator=order).split(BATCH):
            optimizer.zero_grad()
            method(model, batch([texts[i] for i in rows], [names[i] for i in rows]))
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
    seconds = time.perf_counter() - start
    model.eval()
    hits = 0
    with torch.no_grad():
        for i in range(0, len(held_out), 50):
            part = batch(held_out[i : i + 50], held_out_names[i : i + 50])
            hits += int((model(**part).logits.argmax(-1) == part["labels"]).sum())
    return {
        "accuracy": hits / len(held_out),
        "seconds": round(seconds, 1),
        "passes": str(method.passes),
        "unit": method.unit,
    }


def table() -> None:
    """The mean difference to plain training, in points, paired over seeds."""
    runs = [json.loads(path.read_text()) for path in sorted(RESULTS.glob("*.json"))]
    accuracy = {(r["model"], r["task"], r["candidate"], r["seed"]): r["accuracy"] for r in runs}
    places = sorted({key[:2] for key in accuracy})
    print("| candidate | " + " | ".join(f"{task}, {model}" for model, task in places) + " | mean |")
    print("|---|" + "---|" * (len(places) + 1))
    for name in CANDIDATES:
        cells, means = [], []
        for place in places:
            found = [
                (accuracy[k], accuracy.get((*place, "plain", k[3])))
                for k in accuracy
                if k[:3] == (*place, name)
            ]
            differences = [
                100 * (a if name == "plain" else a - base) for a, base in found if base is not None
            ]
            if differences:
                means.append(statistics.mean(differences))
            cells.append(f"{means[-1]:+.2f} ({len(differences)})" if differences else "")
        print(f"| {name} | {' | '.join(cells)} | {f'{statistics.mean(means):+.2f}' if means else ''} |")


def main() -> None:
    """Run what is missing, or print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--task", action="append", default=[], metavar="NAME=CSV")
    parser.add_argument("--model", action="append", default=[], metavar="NAME=FOLDER")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument(
        "--table", action="store_true", help="print the table of the runs so far, and run nothing"
    )
    args = parser.parse_args()
    if args.table:
        table()
        return
    RESULTS.mkdir(parents=True, exist_ok=True)
    for seed in range(args.seeds):
        for task, data in (item.split("=", 1) for item in args.task):
            for model, folder in (item.split("=", 1) for item in args.model):
                for name, build in CANDIDATES.items():
                    path = RESULTS / f"{model}_{task}_{name}_{seed}.json"
                    if path.exists():
                        continue
                    about = {
                        "model": model,
                        "task": task,
                        "candidate": name,
                        "seed": seed,
                        "torch": torch.__version__,
                    }
                    result = {**about, **run(folder, data, build, seed)}
                    path.write_text(json.dumps(result, indent=1) + "\n")
                    print(model, task, name, seed, result["accuracy"], result["seconds"], flush=True)


if __name__ == "__main__":
    main()
