"""What a step costs, as ratios to the passes that its method documents, measured in one run.

    python benchmarks/speed.py                  # the embedded MiniLM, 32 x 32 tokens, 25 interleaved rounds
    python benchmarks/speed.py --rounds 40 --tokens 64 --output benchmarks/results/speed.json

Every round times, one after the other, a plain forward and backward by hand, an input-only pass by hand (a
forward and the gradient at the embeddings alone), and one step of each method. A method's ratio in the round
is its time over that of the passes that it documents; the median over the rounds is quoted, for the machine's
drift is in both sides of a ratio. Peak memory is that of a fresh process which does nothing but ten steps.
Optimizer steps are in no figure: they are the same for every method.
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

from sparring import FGM, FGSM, PGD, Delayed, Every, FreeLB, Method, Plain
from sparring.anatomy import word_embeddings

METHODS: dict[str, Callable[[], Method]] = {
    "plain": Plain,
    "fgm": FGM,
    "fgsm": FGSM,
    "pgd, 3 steps": PGD,
    "freelb, 2 steps": lambda: FreeLB(steps=2),
    "freelb, 3 steps": FreeLB,
    "freelb, 3 steps, clean pass": lambda: FreeLB(clean_weight=1.0),
    "freelb, fresh dropout": lambda: FreeLB(dropout="fresh"),
    "every 2nd, freelb": lambda: Every(FreeLB(), 2),
    "delayed, freelb": lambda: Delayed(FreeLB(), 10**9),
}


def make(args: argparse.Namespace) -> tuple[nn.Module, dict[str, Tensor]]:
    """A sequence classifier in training mode, and one batch of full length."""
    from transformers import AutoConfig, AutoModelForSequenceClassification

    torch.manual_seed(0)
    folder = args.model
    if folder is None:
        from sparring.data.default import default_model_path

        folder = default_model_path()
    config = AutoConfig.from_pretrained(folder, num_labels=2)
    model = AutoModelForSequenceClassification.from_config(config).train()
    shape = (args.batch_size, args.tokens)
    ids = torch.randint(1000, config.vocab_size, shape)
    return model, {
        "input_ids": ids,
        "attention_mask": torch.ones_like(ids),
        "labels": torch.arange(len(ids)) % 2,
    }


def seconds(step: Callable[[], object]) -> float:
    """What one call takes."""
    start = time.perf_counter()
    step()
    return time.perf_counter() - start


def input_only(model: nn.Module, batch: dict[str, Tensor]) -> None:
    """An ascent pass by hand: a forward, and the gradient at the embeddings' output alone."""
    kept: list[Tensor] = []

    def keep(_module: nn.Module, _args: object, output: Tensor) -> Tensor:
        kept.append(output.detach().requires_grad_())
        return kept[0]

    handle = word_embeddings(model)[1].register_forward_hook(keep)
    try:
        loss = model(**batch).loss
    finally:
        handle.remove()
    torch.autograd.grad(loss, kept[0])


def ratios(args: argparse.Namespace) -> dict[str, dict[str, float | str]]:
    """For each method the median ratios to its documented passes and to a plain pass."""
    model, batch = make(args)
    methods = {name: build() for name, build in METHODS.items()}

    def cleared(step: Callable[[], object]) -> Callable[[], object]:
        model.zero_grad(set_to_none=True)
        return step

    def full() -> None:
        model(**batch).loss.backward()

    rounds: list[dict[str, float]] = []
    for _ in range(args.rounds + 2):
        times = {"full": seconds(cleared(full)), "ascent": seconds(cleared(lambda: input_only(model, batch)))}
        for name, method in methods.items():
            times[name] = seconds(cleared(lambda method=method: method(model, batch)))
        rounds.append(times)
    rounds = rounds[2:]  # the first rounds allocate, and hold the methods' first-batch checks

    def median(ratio: Callable[[dict[str, float]], float]) -> float:
        return round(statistics.median(map(ratio, rounds)), 3)

    table: dict[str, dict[str, float | str]] = {
        "an ascent pass by hand": {"to a plain pass": median(lambda t: t["ascent"] / t["full"])}
    }
    for name, method in methods.items():
        passes = method.passes
        row: dict[str, float | str] = {
            "passes": str(passes),
            "to a plain pass": median(lambda t, n=name: t[n] / t["full"]),
        }
        if not isinstance(method, (Every, Delayed)):
            row["to its passes"] = median(
                lambda t, n=name, p=passes: t[n] / (p.full * t["full"] + p.ascent * t["ascent"])
            )
        table[name] = row
    return table


def peak(args: argparse.Namespace, name: str) -> float:
    """The peak memory in MiB of a process that runs ten steps of a method, and nothing else."""
    command = [
        sys.executable,
        __file__,
        "--peak-of",
        name,
        "--batch-size",
        str(args.batch_size),
        "--tokens",
        str(args.tokens),
    ]
    command += ["--model", args.model] if args.model else []
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1])


def print_peak(args: argparse.Namespace) -> None:
    """What `peak` asks a fresh process for."""
    model, batch = make(args)
    method = METHODS[args.peak_of]()
    for _ in range(10):
        model.zero_grad(set_to_none=True)
        method(model, batch)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def import_seconds(rounds: int) -> float:
    """What importing a method adds to `import torch`: the median over interleaved processes."""

    def once(statement: str) -> float:
        code = f"import time; t = time.perf_counter(); {statement}; print(time.perf_counter() - t)"
        return float(
            subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
        )

    once("from sparring import FreeLB")
    return statistics.median(
        once("import torch; from sparring import FreeLB") - once("import torch") for _ in range(rounds)
    )


def show(table: dict[str, dict[str, float | str]], columns: list[str]) -> None:
    """Print some columns of the table."""
    print(f"| step | {' | '.join(columns)} |\n|---|{'---|' * len(columns)}")
    for name, row in table.items():
        print(f"| {name} | {' | '.join(str(row.get(column, '')) for column in columns)} |")
    print(flush=True)


def main() -> None:
    """Measure, print the table, and keep it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", help="a model's folder; the embedded MiniLM by default")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--peak-of", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.peak_of:
        print_peak(args)
        return
    table = ratios(args)
    show(table, ["passes", "to a plain pass", "to its passes"])  # now: memory takes minutes more
    plain = peak(args, "plain")
    for name in METHODS:
        table[name]["peak memory to plain"] = round(peak(args, name) / plain, 3)
    show(table, ["passes", "peak memory to plain"])
    added = import_seconds(9)
    print(f"importing a method adds {added:.3f} s to import torch")
    if args.output:
        about = {
            "batch_size": args.batch_size,
            "tokens": args.tokens,
            "rounds": args.rounds,
            "threads": torch.get_num_threads(),
            "torch": torch.__version__,
            "python": platform.python_version(),
            "processor": platform.machine(),
        }
        args.output.parent.mkdir(parents=True, exist_ok=True)
        result = {"about": about, "table": table, "import_seconds_added": added}
        args.output.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
