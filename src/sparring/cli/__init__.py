"""The command line: `sparring COMMAND [flags]`. One subcommand, one file.

Nothing heavy is imported here, so that `sparring --help` answers at once.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module

from sparring.errors import InputError

COMMANDS = {
    "train": "fine-tune a classifier, plainly or adversarially",
    "evaluate": "measure accuracy, calibration, and accuracy under attack",
    "predict": "label texts with a model",
    "methods": "list the methods: what they do, what they cost, when to use which",
    "env": "print what a bug report needs",
    "demo": "train a small model plainly and with FreeLB, and compare both",
}
"""The subcommands. Each is the module of its name, with its flags, `Options`, and `run(options)`."""

BAD_INPUT = 2
INTERRUPTED = 130  # 128 + SIGINT, as a shell reports it


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status: 0, 2 for bad input, 130 for Ctrl-C.

    Args:
        argv: the command and its flags; the process's own where None.
    """
    try:
        status = _dispatch(list(sys.argv[1:] if argv is None else argv))
        sys.stdout.flush()  # else a reader that has left is noticed only when Python ends
    except InputError as error:
        return _fail(str(error))
    except KeyboardInterrupt as stop:
        print(f"\nsparring: interrupted{''.join(f'; {what}' for what in stop.args)}", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # as in `sparring predict | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes once more at its end
        return 0
    except OSError as error:
        if error.filename is None and error.errno != errno.ENOSPC:
            raise  # not about a file of the user's
        return _fail(f"{error.filename or 'writing'}: {error.strerror}")
    return status


def _dispatch(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(_help())
        return 0
    if arguments[0] in ("-V", "--version"):
        from sparring import __version__

        print(f"sparring {__version__}")
        return 0
    name, *rest = arguments
    if name not in COMMANDS:
        (near,) = get_close_matches(name, COMMANDS, n=1, cutoff=0.0)
        raise InputError(f"unknown command {name!r}: did you mean {near!r}? `sparring --help` lists them")

    from sparring.cli.console import listening
    from sparring.cli.parsing import parse

    command = import_module(f"sparring.cli.{name}")
    options = parse(command.Options, rest, command=name)
    if options is None:  # it was asked for help
        return 0
    with listening():
        status: int = command.run(options)
    return status


def _help() -> str:
    commands = "\n".join(f"  {name:<10}{what}" for name, what in COMMANDS.items())
    return f"""\
usage: sparring COMMAND [flags]

Adversarial training of transformer language models, and what it bought.

{commands}

`sparring COMMAND --help` lists a command's flags, `sparring --version` prints the version.

  sparring train --output runs/first       the embedded model and reviews, with FreeLB
  sparring evaluate --model runs/first     how accurate it is, and how robust"""


def _fail(message: str) -> int:
    print(f"sparring: error: {' '.join(message.split())}", file=sys.stderr)
    return BAD_INPUT
