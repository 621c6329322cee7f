"""What `from_pretrained` reads: a folder or a hub model. Its failures become one line, its chatter is off."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError

from sparring.data.wording import missing
from sparring.errors import InputError

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


@contextmanager
def loading(name: str) -> Iterator[None]:
    """Inside, a failure to load `name` becomes an InputError, and transformers doesn't warn of new weights.

    The caller looks at these itself. The progress of a download is still shown.
    """
    from transformers.utils import logging

    folder = Path(name)
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled() and folder.is_dir()
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    if bars:
        logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        _check_place(folder)
        yield
    except InputError:
        raise
    except (KeyError, OSError, RuntimeError, SafetensorError, ValueError) as error:
        what = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
        place = name if folder.is_dir() else f"there is no folder {name}, and as a model of the hub it"
        raise InputError(f"{place} can't be loaded: {what}") from error
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]


def _check_place(folder: Path) -> None:
    """What is plain to see before anything is read."""
    if folder.is_file():
        raise InputError(f"{folder} is a file: give the folder of a model")
    if not folder.is_dir():
        # A hub model is `name` or `owner/name`, which is no path where there is no folder `owner`.
        in_folder = len(folder.parts) == 2 and folder.parent.is_dir()
        if folder.is_absolute() or in_folder or len(folder.parts) > 2:
            raise InputError(missing(folder, "folder"))
        return
    if not (folder / "config.json").is_file():
        raise InputError(f"{folder} holds no model: it has no config.json, which save_pretrained writes")
    if not [path for kind in ("*.safetensors", "*.bin") for path in folder.glob(kind)]:
        raise InputError(
            f"{folder} holds a model's config.json, but no weights: model.safetensors is missing"
        )


def load_tokenizer(name: str) -> PreTrainedTokenizerBase:
    """The tokenizer, with a pad token: the end-of-text token where it has none of its own, as GPT-2's.

    Raises:
        InputError: there are no tokenizer files, in which case transformers gives a tokenizer without words.
    """
    from transformers import AutoTokenizer

    tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(name)
    if set(tokenizer.get_vocab()) <= set(tokenizer.all_special_tokens):
        raise InputError(f"{name} has no tokenizer: put the model's there with tokenizer.save_pretrained")
    if tokenizer.pad_token is None:
        if tokenizer.eos_token is None:
            raise InputError(
                f"{name}: its tokenizer has no pad and no end-of-text token: give it a pad token"
            )
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def check_weights(name: str, model: PreTrainedModel, info: dict[str, Any], *, new_head: bool) -> None:
    """Only the head, and a pooler below it, may be new: what a checkpoint lacks is drawn at random.

    Args:
        name: of the checkpoint.
        model: loaded from it.
        info: of `output_loading_info`.
        new_head: whether the head may be new.

    Raises:
        InputError: naming what the checkpoint lacks, or has in another size.
    """
    resized = [key if isinstance(key, str) else key[0] for key in info["mismatched_keys"]]  # 5 adds the sizes
    new = sorted([*info["missing_keys"], *resized])
    body = [key for key in new if key.startswith(f"{model.base_model_prefix}.") and "pooler" not in key]
    if body:
        what = f"{body[0]} is missing or has another size"
        raise InputError(
            f"{name}: its weights aren't those of its config.json's {type(model).__name__}: {what}"
        )
    if new and not new_head:
        raise InputError(f"{name} has no trained classification head: {new[0]} is missing; train it first")
