"""The two errors of gradveil, and how errors of the operating system become one of them."""

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class BadInput(ValueError):
    """What the user gave cannot work; the message is one sentence naming key, value and rule (exit code 2)."""


class RunFailed(Exception):
    """The question was sound and the answer is no: a diverged run, a digest that differs (exit code 1)."""


def shown(value: object, most: int = 80) -> str:
    """Return a value as it may stand in a sentence: its repr on one line, cut where it is long."""
    try:
        text = " ".join(repr(value).split())
    except ValueError:  # Python writes no whole number of more than 4,300 digits
        text = "a number of thousands of digits"
    return text if len(text) <= most else f"{text[: most - 3]}..."


@contextmanager
def machine_errors() -> Iterator[None]:
    """Turn what the machine refuses into BadInput: files, memory, text that is nested too deep, impossible paths.

    Every other exception goes through as it is: it is a mistake of the program, and its traceback is wanted.
    """
    try:
        yield
    except BrokenPipeError:  # whoever read our output has left; that is no input
        raise
    except (OSError, MemoryError, RecursionError, ValueError, RuntimeError) as error:
        sentence = _sentence(error)
        if sentence is None:
            raise
        raise BadInput(sentence) from error


def _sentence(error: Exception) -> str | None:
    """Say what the machine refused; None where the exception tells of something else."""
    if isinstance(error, BadInput):
        return None
    if isinstance(error, OSError):
        reason = error.strerror or " ".join(str(error).split()) or type(error).__name__
        return reason if error.filename is None else f"{shown(error.filename)}: {reason}"
    if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error):
        return f"out of memory ({' '.join(str(error).split())[:120] or 'no more could be allocated'})"
    if isinstance(error, RecursionError):
        return "the file is nested too deeply to be read" if _was_reading(error) else None
    if isinstance(error, ValueError) and str(error).startswith("embedded null"):
        return "a path contains a NUL character, which no file name can"
    if isinstance(error, UnicodeEncodeError):
        return f"text: {error.object[error.start : error.end]!r} cannot be written as UTF-8"
    return None


def _was_reading(error: Exception) -> bool:
    """Whether TOML or JSON was being parsed: a recursion without end anywhere else is a mistake of the program."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return Path(last.filename).parent.name in ("tomllib", "json") or last.name in ("loads", "decode", "raw_decode")
