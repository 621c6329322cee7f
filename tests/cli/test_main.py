from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

import sparring as package
from sparring.cli import COMMANDS, env, methods

SOURCE = Path(package.__file__).parents[1]


@pytest.mark.parametrize("line", ["", "--help", "-h", "help"])
def test_the_top_level_help_names_every_command(line, sparring):
    done = sparring(line)
    assert (done.status, done.err) == (0, "")
    for name, what in COMMANDS.items():
        assert f"  {name:<10}{what}" in done.out


def test_every_command_is_there_and_prints_its_help(sparring):
    for name in COMMANDS:
        for flag in ("--help", "-h"):
            done = sparring(name, flag)
            assert (done.status, done.err) == (0, "")
            assert done.out.startswith(f"usage: sparring {name} [flags]\n")


def test_the_top_level_help_loads_neither_torch_nor_what_the_commands_need():
    script = "import sys; from sparring.cli import main; main(['--help']); print('LOADED', *sys.modules)"
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    run = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    loaded = set(run.stdout.partition("LOADED ")[2].split())
    assert "sparring.cli" in loaded
    assert loaded & {"torch", "transformers", "jsonargparse", "rich", "numpy"} == set()


def test_the_module_runs_as_the_command():
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    command = [sys.executable, "-m", "sparring", "trian"]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 2
    assert run.stderr == (
        "sparring: error: unknown command 'trian': did you mean 'train'? `sparring --help` lists them\n"
    )


def test_the_version_is_the_packages(sparring):
    assert sparring("--version") == (0, f"sparring {package.__version__}\n", "")


def test_an_unknown_command_is_refused_with_the_nearest(refused):
    assert (
        refused("evalute")
        == "unknown command 'evalute': did you mean 'evaluate'? `sparring --help` lists them"
    )


def raising(error):
    def run(_):
        raise error

    return run


def test_ctrl_c_exits_with_130_and_says_what_is_known(sparring, monkeypatch):
    monkeypatch.setattr(methods, "run", raising(KeyboardInterrupt("step 4 is kept")))
    done = sparring("methods")
    assert (done.status, done.err) == (130, "\nsparring: interrupted; step 4 is kept\n")


def test_a_files_error_is_one_line(sparring, refused, monkeypatch):
    monkeypatch.setattr(env, "run", raising(OSError(errno.EACCES, "Permission denied", "runs/x")))
    assert refused("env") == "runs/x: Permission denied"
    monkeypatch.setattr(env, "run", raising(OSError(errno.ENOSPC, "No space left on device")))
    assert refused("env") == "writing: No space left on device"


def test_errors_that_are_no_users_mistake_keep_their_traceback(sparring, monkeypatch):
    monkeypatch.setattr(env, "run", raising(ConnectionError("the hub is away")))
    with pytest.raises(ConnectionError, match="the hub is away"):
        sparring("env")
    monkeypatch.setattr(env, "run", raising(ValueError("a bug")))
    with pytest.raises(ValueError, match="a bug"):
        sparring("env")


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_leaves_is_no_error(unbuffered):
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "PYTHONUNBUFFERED": unbuffered}
    command = f"{sys.executable} -m sparring methods | true"
    run = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (run.returncode, run.stderr) == (0, "")
