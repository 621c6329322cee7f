from __future__ import annotations

import logging
import sys

import pytest

from sparring.cli import console


def test_facts_are_two_columns_whose_text_wraps_in_its_own(capsys):
    console.facts([("Data", "x" * 3), ("Model", "word " * 30), ("", "more")])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Data       xxx"
    assert lines[1].startswith("Model      word")
    assert lines[2].startswith("           word")
    assert lines[-1] == "           more"
    assert all(len(line) <= console.FILE_WIDTH and line == line.rstrip() for line in lines)


def test_tables_have_text_on_the_left_and_numbers_on_the_right_and_print_brackets_as_they_are(capsys):
    console.table(["", "accuracy"], [["plain", "0.5"], ["[bold]free[/bold]", "0.25"]])
    assert capsys.readouterr().out.splitlines() == [
        "                    accuracy",
        "plain                    0.5",
        "[bold]free[/bold]       0.25",
    ]


def test_warnings_are_one_line_on_standard_error(capsys):
    console.warn("a\n  b")
    assert capsys.readouterr() == ("", "sparring: warning: a b\n")


@pytest.mark.parametrize(("seconds", "text"), [(0.4, "0:00"), (59.6, "1:00"), (3723, "1:02:03")])
def test_durations(seconds, text):
    assert console.duration(seconds) == text


def test_progress_without_a_terminal_is_a_line_now_and_then(capsys, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(console.time, "monotonic", lambda: now[0])
    bar = console.Bar("training", 8, 2)
    for step in range(3, 9):
        now[0] += 6
        bar.at(step, "epoch 1/1", f"loss {step}")
    bar.close()
    assert capsys.readouterr().out.splitlines() == [
        "epoch 1/1  4/8  loss 4  0:24 left",
        "epoch 1/1  6/8  loss 6  0:12 left",
    ]


def test_progress_on_a_terminal_is_a_bar_that_goes_away(capsys, monkeypatch):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    bar = console.Bar("training", 8)
    bar.at(3, "epoch 1/2", "loss 0.5")
    bar._progress.refresh()
    sys.stdout.write("between\n")
    bar.close()
    out = capsys.readouterr().out
    assert "epoch 1/2" in out
    assert "3/8" in out
    assert "loss 0.5" in out
    assert "between" in out
    assert out.endswith("\x1b[2K")  # the bar's line is cleared


def test_the_librarys_log_is_shown_while_it_is_listened_to(capsys):
    log = logging.getLogger("sparring")
    before = (log.level, log.propagate, list(log.handlers))
    with console.listening():
        log.info("FreeLB(steps=3)")
        logging.getLogger("sparring.loops").warning("beware")
    assert capsys.readouterr() == ("Method     FreeLB(steps=3)\n", "sparring: warning: beware\n")
    assert (log.level, log.propagate, list(log.handlers)) == before
