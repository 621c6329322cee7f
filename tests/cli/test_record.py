from __future__ import annotations

import subprocess

import torch

import sparring as package
from sparring.cli import record


def test_env_prints_what_a_bug_report_needs(sparring, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    done = sparring("env")
    assert (done.status, done.err) == (0, "")
    found = dict(line.split(maxsplit=1) for line in done.out.splitlines() if not line.startswith("commit"))
    assert found["sparring"] == package.__version__
    assert found["torch"] == torch.__version__
    assert {"python", "transformers", "platform", "cores", "devices"} <= set(found)
    assert found["OMP_NUM_THREADS"] == "7"


def test_the_commit_is_that_of_the_working_folder_and_tells_changes(tmp_path):
    assert "here" not in record.commits()

    def git(*arguments):
        identity = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
        run = ["git", *identity, *arguments]
        return subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, check=True).stdout.strip()

    git("init")
    (tmp_path / "a").write_text("1", encoding="utf-8")
    git("add", "a")
    git("commit", "-m", "a")
    head = git("rev-parse", "HEAD")
    assert record.commits()["here"] == head
    (tmp_path / "a").write_text("2", encoding="utf-8")
    assert record.commits()["here"] == f"{head}+"


def test_peak_memory_grows(monkeypatch):
    before = record.peak_memory()["process"]
    block = torch.ones(before // 4 + 10**7)  # of 4 bytes
    assert record.peak_memory()["process"] > before
    assert block.sum() > 0
