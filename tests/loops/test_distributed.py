from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from sparring.loops.distributed import mean_over_processes
from tests.loops.asking import Asking
from tests.loops.processes import in_a_plain_loop, in_the_trainer, still
from tests.loops.tiny import collate, examples, furthest, same

ROOT = Path(__file__).parents[2]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """What two processes ended with."""
    folder = tmp_path_factory.mktemp("two")
    common = {
        **os.environ,
        "WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")]),
    }
    command = [sys.executable, "-W", "ignore", "-m", "tests.loops.processes", str(folder)]
    started = []
    for rank in "01":
        environment = {**common, "RANK": rank, "LOCAL_RANK": rank}
        with (folder / f"{rank}.log").open("w") as log:
            started.append(subprocess.Popen(command, env=environment, cwd=ROOT, stdout=log, stderr=log))
    try:
        codes = [process.wait(timeout=250) for process in started]
    finally:
        for process in started:
            process.kill()
            process.wait()
    assert codes == [0, 0], "\n".join((folder / f"{rank}.log").read_text()[-3000:] for rank in "01")
    return [torch.load(folder / f"{rank}.pt") for rank in "01"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["trainer", "own", "unbroken", "plain", "accelerate"])
def test_processes_that_train_together_end_with_equal_weights(name, two):
    assert same(two[0][name], two[1][name])


@pytest.mark.slow
def test_two_processes_are_the_one_with_the_big_batch(two, tmp_path):
    big = in_the_trainer(tmp_path, still(), size=8, accumulate=1)
    assert furthest(two[0]["trainer"], big) < 1e-12


@pytest.mark.slow
def test_a_methods_own_parameters_are_averaged_with_the_models(two, tmp_path):
    torch.manual_seed(0)
    method = Asking()
    torch.nn.init.normal_(method.own)
    big = in_the_trainer(tmp_path, method, size=4, accumulate=1)
    assert furthest(two[0]["own"], big) < 1e-6  # the method's parameter is float32


@pytest.mark.slow
@pytest.mark.parametrize("loop", ["plain", "accelerate"])
def test_a_loop_of_ones_own_averages_once_where_it_says(loop, two):
    big = in_a_plain_loop(lambda model: model, [collate(examples(16)[:8])], weight=1.0)
    assert furthest(two[0][loop], big) < 1e-12
    assert two[0]["reductions"] == []  # no pass has been synchronised by itself


@pytest.mark.slow
def test_processes_resume_each_from_its_own_state(two):
    assert two[0]["files"] == ["method_0.pt", "method_1.pt"]
    for process in two:
        assert same(process["resumed"], process["unbroken"])


@pytest.mark.slow
def test_a_gradient_that_one_process_lacks_counts_as_zero_and_one_that_all_lack_stays_away(two):
    for process in two:
        first, second, *rest = process["averages"]
        assert first.tolist() == [1.5, 3.0]
        assert second.tolist() == [2.0, 3.0]
        assert rest == [None, None]
        assert process["mean"] == 0.5


def test_one_process_has_nothing_to_average():
    assert mean_over_processes(0.1, torch.device("cpu")) == 0.1
