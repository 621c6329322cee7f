"""What people see: facts, tables, progress. The only file that imports rich.

Everything goes to standard output; warnings and errors, one line each, to standard error.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

QUIET = 10.0
"""Seconds between two lines of progress where there is no terminal to draw a bar on."""
FILE_WIDTH = 112
"""Columns where there is no terminal that says how many."""


def title(text: str) -> None:
    """What is being done, in bold."""
    _console().print(Text(text, style="bold"))
    print()


def facts(rows: Iterable[tuple[str, str]], *, width: int = 11) -> None:
    """A label and a text each, in two columns."""
    grid = Table.grid(padding=0)
    grid.add_column(width=width, style="cyan", no_wrap=True)
    grid.add_column(overflow="fold")
    for row in rows:
        grid.add_row(*(Text(cell) for cell in row))
    _show(grid)


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, text: int = 1) -> None:
    """A table without lines, whose first `text` columns are text, and the others numbers."""
    drawn = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold")
    for i, name in enumerate(columns):
        drawn.add_column(name, justify="left" if i < text else "right", no_wrap=i == 0 or i >= text)
    for row in rows:
        drawn.add_row(*(Text(cell) for cell in row))
    _show(drawn)


def warn(text: str) -> None:
    """A line on standard error."""
    print(f"sparring: warning: {' '.join(text.split())}", file=sys.stderr)


def duration(seconds: float) -> str:
    """`1:02:03`, or `2:03`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


class Bar:
    """How far a job is: a bar on a terminal until it is closed, elsewhere a line every few seconds.

    Args:
        what: the job's name.
        total: how many steps it takes.
        done: how many of them were done before.
    """

    def __init__(self, what: str, total: int, done: int = 0) -> None:
        self.what, self.total, self.first = what, total, done
        self.started = self.printed = time.monotonic()
        self.drawn = sys.stdout.isatty()
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[figures]}"),
            TimeRemainingColumn(compact=True),
            TextColumn("left"),
            console=_console(),
            transient=True,
        )
        self._task = self._progress.add_task(what, total=total, completed=done, figures="")
        if self.drawn:
            self._progress.start()

    def close(self) -> None:
        """Take it away."""
        if self.drawn:
            self._progress.stop()

    def at(self, done: int, what: str = "", figures: str = "") -> None:
        """So many steps are done; `what` says which part that is, `figures` what is known."""
        if self.drawn:
            self._progress.update(self._task, completed=done, description=what or self.what, figures=figures)
            return
        now = time.monotonic()
        if self.first < done < self.total and now - self.printed >= QUIET:
            self.printed = now
            left = (now - self.started) / (done - self.first) * (self.total - done)
            parts = [f"{what or self.what}  {done}/{self.total}", figures, f"{duration(left)} left"]
            print("  ".join(part for part in parts if part), flush=True)


@contextmanager
def listening() -> Iterator[None]:
    """Inside, the library's log is shown here, and here only; once, however often this is entered."""
    log = logging.getLogger("sparring")
    handlers, propagate = log.handlers, log.propagate
    log.handlers, log.propagate = [_Lines()], False
    try:
        yield
    finally:
        log.handlers, log.propagate = handlers, propagate


class _Lines(logging.Handler):
    """Information as facts: it is a method's one line on itself. What is worse, as warnings."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.WARNING:
            warn(record.getMessage())
        else:
            facts([("Method", record.getMessage())])


def _console() -> Console:
    """Where output goes now; made anew each time, for standard output can be replaced."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else FILE_WIDTH)


def _show(drawn: Table) -> None:
    """Print it without the blanks that rich puts at the ends of lines."""
    out = _console()
    with out.capture() as capture:
        out.print(drawn)
    print("\n".join(line.rstrip() for line in capture.get().splitlines()))
