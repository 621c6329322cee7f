"""A command's flags and YAML keys, read from signatures. The only file that imports jsonargparse.

It was chosen because it reads constructors through `**kwargs` and inheritance, their docstrings, nested keys
and YAML, and checks types; typer, click and tyro leave out one or more of these. So an argument's name, type,
default and words are written once, where it is used.
"""

from __future__ import annotations

import math
import re
from argparse import SUPPRESS, Action, ArgumentError, HelpFormatter
from dataclasses import fields
from inspect import signature
from shutil import get_terminal_size
from typing import Any, Literal

from jsonargparse import ArgumentParser

from sparring.cli.choice import kind_of

EPILOG = "Every flag is also a key of a YAML file, given by --config FILE; flags win over the file."


class Flags:
    """The flags of one command.

    Args:
        options: a dataclass whose fields are the flags; those of each base are a group in the help.
        command: the command's name.
        method: the method whose constructor's arguments are flags too, where the options have one.

    Attributes:
        known: the defaults by key, as in `method.step_size`.
    """

    def __init__(self, options: type[Any], command: str, method: str | None) -> None:
        self._parser = ArgumentParser(
            prog=f"sparring {command}",
            usage=f"sparring {command} [flags]",
            description=_first_line(options),
            formatter_class=Formatter,
            exit_on_error=False,
            add_help=False,
        )
        seen = {"method"}
        for kind in reversed(options.__mro__[:-1]):
            names = {f.name for f in fields(kind)}
            group = self._parser.add_argument_group(
                "flags" if kind is options else _first_line(kind).rstrip(".").lower()
            )
            group.add_class_arguments(kind, as_group=False, instantiate=False, skip=names & seen)
            seen |= names
        if method is not None:
            self._add_method(method)
        self.known: dict[str, Any] = flat(self._parser.get_defaults().as_dict())
        self._parser.epilog = EPILOG if self.known else None

    def help(self) -> str:
        """All flags, in groups."""
        text: str = self._parser.format_help()
        return text

    def of_file(self, content: dict[str, Any]) -> Any:
        """The configuration that a file's content makes; a ValueError names a key with a wrong value."""
        try:
            return self._parser.parse_object(content)
        except ArgumentError as error:
            raise ValueError(_reworded(str(error))) from None

    def merged(self, config: Any, arguments: list[str]) -> dict[str, Any]:
        """The values, nested, of `--key=value` arguments over a file's; a ValueError as `of_file`."""
        try:
            values: dict[str, Any] = self._parser.parse_args(arguments, namespace=config).as_dict()
        except ArgumentError as error:
            raise ValueError(_reworded(str(error))) from None
        return values

    def _add_method(self, name: str) -> None:
        """The constructor's arguments as `--method.*`, with `--method.ball.*` and `--method.site.*`."""
        from sparring.sites import Output, Weight

        kind = kind_of(name)
        group = self._parser.add_argument_group(
            f"--method {name} (`sparring methods` lists the others; --seed is its seed too)"
        )
        elsewhere = {"ball", "site", "forward", "seed"}
        group.add_class_arguments(kind, "method", as_group=False, instantiate=False, skip=elsewhere)
        if "ball" in signature(kind).parameters:
            ball = signature(kind).parameters["ball"].default
            norm = type(ball).__name__.lower()
            group.add_argument(
                "--method.ball.kind", type=Literal["l2", "linf", "l1"], default=norm, help="the norm"
            )
            group.add_class_arguments(type(ball), "method.ball", as_group=False, instantiate=False)
            self._parser.set_defaults({f"method.ball.{key}": value for key, value in vars(ball).items()})
        group.add_argument(
            "--method.site.kind",
            type=Literal["embeddings", "output", "weight"],
            default="embeddings",
            help="where the perturbation acts: on the word embeddings, another module's output, or a weight",
        )
        group.add_argument("--method.site.module", type=str | None, help="for `output`: the module's name")
        elsewhere = {"module", "input_ids", "mask"}  # the keys of a batch are the command line's own business
        group.add_class_arguments(Output, "method.site", as_group=False, instantiate=False, skip=elsewhere)
        group.add_class_arguments(Weight, "method.site", as_group=False, instantiate=False)


def flat(content: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested keys joined by dots."""
    found: dict[str, Any] = {}
    for key, value in content.items():
        if isinstance(value, dict) and value:
            found |= flat(value, f"{prefix}{key}.")
        else:
            found[f"{prefix}{key}"] = value
    return found


def _first_line(kind: type[Any]) -> str:
    return (kind.__doc__ or "").partition("\n")[0]


class Formatter(HelpFormatter):
    """Hyphens in flags, the kind of value in place of its name, and the default where there is one."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=30, width=min(get_terminal_size().columns, 112) - 2)

    def _format_action_invocation(self, action: Action) -> str:
        flag = action.option_strings[0].replace("_", "-")
        return flag if isinstance(action.default, bool) else f"{flag} {self._value(action)}"

    def _value(self, action: Action) -> str:
        if isinstance(action.metavar, str) and action.metavar.startswith("{"):
            return action.metavar
        return {int: "N", float: "X", list: "A B ..."}.get(type(action.default), "VALUE")

    def _get_help_string(self, action: Action) -> str:
        text, default = (action.help or "").replace("%", "%%").rstrip("."), action.default
        if default in (None, "", [], SUPPRESS) or default is False:
            return text
        if isinstance(default, float) and math.isinf(default):
            default = "no bound"
        shown = " ".join(map(str, default)) if isinstance(default, list) else default
        return f"{text} ({shown})"


EXPECTED = {
    "<class 'int'>": "a whole number",
    "<class 'float'>": "a number",
    "<class 'bool'>": "true or false",
}


def _reworded(message: str) -> str:
    """What jsonargparse says of a wrong value, as one line that begins with the key."""
    _, quote, rest = message.partition('Parser key "')
    key, _, rest = rest.partition('"')
    found = re.search(r"(?:Got|Given) value: (.*)\Z", rest, flags=re.DOTALL)
    if not quote or found is None:
        return " ".join(message.split())
    expected = next((word for kind, word in EXPECTED.items() if kind in rest), "text")
    if "Literal[" in rest:
        names = rest.partition("Literal[")[2].partition("]")[0]
        expected = f"one of {names}".replace("'", "")
    return f"{key} is {found[1].strip()!r}, but must be {expected}"
