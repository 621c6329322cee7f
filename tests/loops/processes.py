"""What each of several processes runs: `python processes.py FOLDER`, with torchrun's environment variables.

It saves what it ended with in `FOLDER/rank.pt`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from accelerate import Accelerator
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.parallel import DistributedDataParallel
from torch.optim import SGD

from sparring import PGD, FreeLB
from sparring.loops.distributed import average_gradients, mean_over_processes, synchronised_once
from sparring.loops.huggingface import AdversarialTrainer
from tests.loops.asking import Asking
from tests.loops.tiny import classifier, collate, examples, weights
from tests.loops.trainers import run, summed

OPTIONS = {"num_train_epochs": 1, "optim": "sgd", "learning_rate": 0.5, "lr_scheduler_type": "constant"}


def still():
    """A method whose passes depend on nothing but the data."""
    return PGD(steps=2, start=0, unit=1.0)


def in_the_trainer(folder, method, *, size, accumulate, dropout=0.0, resume=None, **options):
    """The weights after training on 16 texts."""
    sizes = {"per_device_train_batch_size": size, "gradient_accumulation_steps": accumulate}
    keywords = {"method": method, "compute_loss_func": summed, "resume": resume}
    model = classifier(dropout).double()
    trainer = run(AdversarialTrainer, folder, model, examples(16), OPTIONS | sizes | options, **keywords)
    own = {f"method.{name}": parameter.detach() for name, parameter in trainer.method.named_parameters()}
    return {**weights(trainer.model), **own}


def in_a_plain_loop(wrap, batches, weight):
    """The weights after one step on these micro-batches, the gradients averaged where there are processes."""
    inner, method = classifier(dropout=0).double(), still()
    model = wrap(inner).train()
    optimizer = SGD(inner.parameters(), lr=1.0)
    for number, batch in enumerate(batches, start=1):
        with synchronised_once(model, method, now=number == len(batches)):
            method(model, batch, weight=weight)
    optimizer.step()
    return weights(inner)


def noted(reductions, bucket):
    """What DistributedDataParallel calls to reduce gradients itself."""
    reductions.append(bucket.index())
    return allreduce_hook(None, bucket)


def in_accelerate(batches):
    """The same in Accelerate, as docs/loops.md has it."""
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    inner, method = classifier(dropout=0).double(), still()
    model, optimizer = accelerator.prepare(inner, SGD(inner.parameters(), lr=1.0))
    model.train()
    for batch in batches:
        with accelerator.accumulate(model), synchronised_once(model, method, now=accelerator.sync_gradients):
            method(model, batch, weight=1 / 2, backward=lambda loss: accelerator.backward(2 * loss))
        if accelerator.sync_gradients:
            optimizer.step()
    return weights(inner)


def averages(rank):
    """A gradient that all have, one that the second process has, one that nobody has, and a frozen one."""
    parameters = [nn.Parameter(torch.zeros(2)) for _ in range(4)]
    parameters[3].requires_grad_(False)
    parameters[0].grad = torch.tensor([1.0, 2.0]) * (rank + 1)
    if rank == 1:
        parameters[1].grad = torch.tensor([4.0, 6.0])
    average_gradients(parameters)
    return [parameter.grad for parameter in parameters]


def main(folder):
    rank = int(os.environ["RANK"])
    found = {}
    found["trainer"] = in_the_trainer(folder / "a", still(), size=2, accumulate=2)
    torch.manual_seed(rank)
    method = Asking()
    nn.init.normal_(method.own)  # begins elsewhere in each process
    found["own"] = in_the_trainer(folder / "b", method, size=2, accumulate=1)
    saving = {"save_strategy": "steps", "save_steps": 2}
    noisy = {"size": 2, "accumulate": 1, "dropout": 0.1}
    found["unbroken"] = in_the_trainer(folder / "c", FreeLB(), **noisy, **saving)
    checkpoint = str(folder / "c" / "checkpoint-2")
    found["resumed"] = in_the_trainer(folder / "d", FreeLB(), **noisy, resume=checkpoint)
    found["files"] = sorted(path.name for path in Path(checkpoint).glob("method*"))
    mine = [collate(examples(16)[i : i + 2]) for i in range(4 * rank, 4 * rank + 4, 2)]
    found["reductions"] = []

    def wrap(inner):
        model = DistributedDataParallel(inner)
        model.register_comm_hook(found["reductions"], noted)
        return model

    found["plain"] = in_a_plain_loop(wrap, mine, weight=0.5)
    found["accelerate"] = in_accelerate(mine)
    found["averages"] = averages(rank)
    found["mean"] = mean_over_processes(float(rank), torch.device("cpu"))
    torch.save(found, folder / f"{rank}.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
