"""A command's flags and YAML keys, read from signatures by jsonargparse.

It was chosen because it reads constructors through `**kwargs` and inheritance, their docstrings, nested keys and YAML, and checks types;
typer, click and tyro leave out one or more of these. So an argument's name, type, default and words are written once, where it is used.
"""

from __future__ import annotations

import math
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
        options: a dataclass whose fields are the flags; each dataclass that it inherits from is a group in the help.
        command: the command's name.
        method: the method whose constructor's arguments are flags too, where the options have one.

    Attributes:
        known: the defaults by key, as in `method.step_size`.
    """

    def __init__(self, options: type[Any], command: str, method: str | None) -> None:
        self._parser = ArgumentParser(
            prog=f"sparring {command}",
            usage=f"sparring {command} [flags]",
            description=(options.__doc__ or "").partition("\n")[0],
            formatter_class=Formatter,
            exit_on_error=False,
            add_help=False,
        )
        seen = {"method"}
        for kind in reversed(options.__mro__[:-1]):
            own = {f.name for f in fields(kind)} - seen
            title = "flags" if kind is options else (kind.__doc__ or "").partition("\n")[0].rstrip(".").lower()
            group = self._parser.add_argument_group(title)
            group.add_class_arguments(kind, as_group=False, instantiate=False, skip={f.name for f in fields(kind)} - own)
            seen |= own
        if method is not None:
            self._add_method(method)
        self.known: dict[str, Any] = flat(self._parser.get_defaults().as_dict())
        self._parser.epilog = EPILOG if self.known else None

    def help(self) -> str:
        """All flags, in groups."""
        text: str = self._parser.format_help()
        return text

    def of_file(self, content: dict[str, Any]) -> Any:
        """The configuration that a file's content makes; a ValueError says which key has what wrong value."""
        try:
            return self._parser.parse_object(content)
        except ArgumentError as error:
            raise ValueError(_reworded(str(error))) from None

    def merged(self, config: Any, arguments: list[str]) -> dict[str, Any]:
        """The nested values of `--key=value` arguments over a file's; a ValueError says which key has what wrong value."""
        try:
            values: dict[str, Any] = self._parser.parse_args(arguments, namespace=config).as_dict()
        except ArgumentError as error:
            raise ValueError(_reworded(str(error))) from None
        return values

    def _add_method(self, name: str) -> None:
        """The constructor's arguments as `--method.*`, those of its ball and site as `--method.ball.*` and `--method.site.*`."""
        from sparring.sites import Output, Weight

        kind = kind_of(name)
        group = self._parser.add_argument_group(f"--method {name} (`sparring methods` lists the others; --seed is its seed too)")
        group.add_class_arguments(
            kind, "method", as_group=False, instantiate=False, skip={"ball", "site", "forward", "seed"}
        )
        if "ball" in signature(kind).parameters:
            ball = signature(kind).parameters["ball"].default
            shape = type(ball).__name__.lower()
            group.add_argument("--method.ball.kind", type=Literal["l2", "linf", "l1"], default=shape, help="the norm")
            group.add_class_arguments(type(ball), "method.ball", as_group=False, instantiate=False)
            self._parser.set_defaults({f"method.ball.{key}": value for key, value in vars(ball).items()})
        group.add_argument(
            "--method.site.kind",
            type=Literal["embeddings", "output", "weight"],
            default="embeddings",
            help="where the perturbation acts: on the word embeddings, another module's output, or a weight",
        )
        group.add_argument("--method.site.module", type=str | None, help="for `output`: the module's name")
        keys_of_a_batch = {"input_ids", "mask"}  # the command line's own business
        group.add_class_arguments(
            Output, "method.site", as_group=False, instantiate=False, skip={"module", *keys_of_a_batch}
        )
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


class Formatter(HelpFormatter):
    """Hyphens in flags, what a value is in place of its name, and the default where there is one."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=28, width=min(get_terminal_size().columns, 112) - 2)

    def _format_action_invocation(self, action: Action) -> str:
        flag = action.option_strings[0].replace("_", "-")
        return flag if isinstance(action.default, bool) else f"{flag} {self._value(action)}"

    def _value(self, action: Action) -> str:
        if isinstance(action.metavar, str):
            return action.metavar
        return {int: "N", float: "X", list: "X ..."}.get(type(action.default), "VALUE")

    def _get_help_string(self, action: Action) -> str:
        text, default = (action.help or "").replace("%", "%%").rstrip("."), action.default
        if default in (None, "", SUPPRESS) or default is False:
            return text
        if isinstance(default, float) and math.isinf(default):
            default = "no bound"
        shown = " ".join(map(str, default)) if isinstance(default, list) else default
        return f"{text} ({shown})"


EXPECTED = {"<class 'int'>": "a whole number", "<class 'float'>": "a number", "<class 'bool'>": "true or false"}


def _reworded(message: str) -> str:
    """jsonargparse's 'Parser key "epochs":\\n  Expected a <class 'int'>. Got value: x' in our words, on one line."""
    _, quote, rest = message.partition('Parser key "')
    key, _, rest = rest.partition('"')
    value = rest.rpartition("Got value: ")[2].strip()
    if not quote or "Expected a" not in rest:
        return " ".join(message.split())
    expected = [word for text, word in EXPECTED.items() if text in rest]
    if "Literal[" in rest:
        names = rest.partition("Literal[")[2].partition("]")[0].replace("'", "")
        expected = [f"one of {names}"]
    return f"{key} is {value!r}, but must be {expected[0] if expected else 'text'}"


