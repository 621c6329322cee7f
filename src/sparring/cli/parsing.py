"""From `argv` and a YAML file to a command's options. What is unknown is named, and what is nearest."""

from __future__ import annotations

import json
from collections.abc import Collection
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from sparring.cli.choice import Choice
from sparring.cli.flags import Flags, flat
from sparring.errors import InputError

T = TypeVar("T")
Given = dict[str, list[str]]
"""The command line's values by key: `--method.step-size 0.1` is `{"method.step_size": ["0.1"]}`."""


def parse(options: type[T], argv: list[str], *, command: str) -> T | None:
    """The options that `argv` and its `--config` file ask for. None where it asked for help: that is printed.

    Raises:
        InputError: an unknown flag or key, or a value of the wrong type.
    """
    given = split(argv)
    wants_help = given.pop("help", None) is not None
    path = _config_file(given)
    content = read_yaml(path) if path is not None else {}
    method = _method(options, given, content)
    flags = Flags(options, command, method)
    if wants_help:
        print(flags.help().rstrip())
        return None
    for key in flat(content):
        if key not in flags.known:
            raise InputError(f"{path}: unknown key {key!r}: did you mean {_nearest(key, flags.known)!r}?")
    arguments = [_argument(key, values, options, flags.known, method) for key, values in given.items()]
    try:
        config = flags.of_file(content)
    except ValueError as error:
        raise InputError(f"{path}: {error}") from None
    try:
        found = flags.merged(config, arguments)
    except ValueError as error:
        key, *rest = str(error).split(" ")
        raise InputError(" ".join([_flag(key), *rest])) from None
    if method is not None:
        found["method"] = Choice(method, found.get("method", {}))
    return options(**{**found, **_verbatim(options, given, content)})


def split(argv: list[str]) -> Given:
    """Of `--a 1 --b=2 --c x y`: `{"a": ["1"], "b": ["2"], "c": ["x", "y"]}`. Of equal flags, the last."""
    given: Given = {}
    values: list[str] | None = None
    for token in argv:
        if token == "-h":
            given["help"] = []
        elif token.startswith("--"):
            name, equals, value = token[2:].partition("=")
            values = given[name.replace("-", "_")] = [value] if equals else []
        elif values is None:
            raise InputError(f"unexpected {token!r}: every argument has a flag, as in --data {token}")
        else:
            values.append(token)
    return given


def read_yaml(path: Path) -> dict[str, Any]:
    """A configuration file. Keys may have hyphens, and `method: freelb` is `method: {name: freelb}`.

    Raises:
        InputError: there is no such file, or it isn't YAML.
    """
    import yaml

    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path}: no such configuration file") from None
    except yaml.MarkedYAMLError as error:
        line = f", line {error.problem_mark.line + 1}" if error.problem_mark is not None else ""
        raise InputError(f"{path}{line}: not YAML: {error.problem}") from None
    except (yaml.YAMLError, UnicodeDecodeError):
        raise InputError(f"{path}: not a YAML file in UTF-8") from None
    if not isinstance(content, dict):
        raise InputError(f"{path}: not a YAML file of `key: value` lines")
    content = _underscored(content)
    if "method" in content and not isinstance(content["method"], dict):
        content["method"] = {"name": content["method"]}
    return content


def _underscored(content: dict[Any, Any]) -> dict[str, Any]:
    return {
        str(key).replace("-", "_"): _underscored(value) if isinstance(value, dict) else value
        for key, value in content.items()
    }


def _config_file(given: Given) -> Path | None:
    """The file of `--config`. To resume takes the run's folder only, whose own file is then meant."""
    if "config" in given:
        return Path(_one("config", given.pop("config")))
    if given.get("resume") in ([], ["true"]) and "output" in given:
        own = Path(_one("output", given["output"])) / "config.yaml"
        return own if own.is_file() else None
    return None


def _method(options: type[Any], given: Given, content: dict[str, Any]) -> str | None:
    """The method's name, a flag's before the file's; of another method, the file's arguments don't count."""
    if "method" not in get_type_hints(options):
        return None
    of_file: dict[str, Any] = content.pop("method", {})
    in_file = str(of_file.pop("name", Choice.name))
    name = _one("method", given.pop("method")) if "method" in given else in_file
    if of_file and name == in_file:
        content["method"] = of_file
    return name


def _verbatim(options: type[Any], given: Given, content: dict[str, Any]) -> dict[str, str | None]:
    """Text as it was given. Jsonargparse reads it as YAML where it may be None, in which `#1 String` is."""
    found: dict[str, str | None] = {}
    for key, hint in get_type_hints(options).items():
        if hint == str | None and key in given:
            found[key] = None if given[key] == ["null"] else given[key][0]
        elif hint == str | None and isinstance(content.get(key), str):
            found[key] = content[key]
    return found


def _argument(
    key: str, values: list[str], options: type[Any], known: dict[str, Any], method: str | None
) -> str:
    """One flag as jsonargparse reads it, `--key=value`."""
    if key not in known:
        others = ["config", *(["method"] if method is not None else []), *known]
        where = f" of --method {method}" if key.startswith("method.") else ""
        raise InputError(f"unknown flag {_flag(key)}{where}: did you mean {_flag(_nearest(key, others))}?")
    hint = get_type_hints(options).get(key)
    if get_origin(hint) is list:
        listed = json.dumps(values) if get_args(hint) == (str,) else f"[{', '.join(values)}]"
        return f"--{key}={listed}"
    if not values and isinstance(known[key], bool):
        values = ["true"]
    value = _one(key, values)
    if isinstance(known[key], float) and value in ("inf", "-inf"):
        value = value.replace("inf", ".inf")  # as YAML writes it
    return f"--{key}={value}"


def _one(key: str, values: list[str]) -> str:
    if not values:
        raise InputError(f"{_flag(key)} needs a value")
    if len(values) > 1:
        raise InputError(f"unexpected {values[1]!r} after {_flag(key)} {values[0]}: it takes one value")
    return values[0]


def _flag(key: str) -> str:
    return f"--{key.replace('_', '-')}"


def _nearest(name: str, known: Collection[str]) -> str:
    """The most similar; below a key that only has others below it, the first of these."""
    below = [key for key in known if key.startswith(f"{name}.")]
    return below[0] if below else get_close_matches(name, known, n=1, cutoff=0.0)[0]
