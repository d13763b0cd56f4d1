"""The two errors for users, and the translation of the system's own errors into them."""

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class BadInput(ValueError):
    """Invalid input; the message is one sentence with key, value and rule (exit code 2)."""


class RunFailed(Exception):
    """The question was sound and the answer is no: a diverged run, a digest that differs (exit code 1)."""


def quoted(value: object, longest: int = 80) -> str:
    """Return a value as it may stand in a sentence: its repr on one line, cut where it is long."""
    try:
        text = " ".join(repr(value).split())
    except ValueError:  # Python writes no whole number of more than 4,300 digits
        text = "a number of thousands of digits"
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


@contextmanager
def machine_errors() -> Iterator[None]:
    """Turn errors of the system into BadInput: files, memory, text that is nested too deep, impossible paths.

    Every other exception passes: it is a bug, and its traceback is wanted.
    """
    try:
        yield
    except BrokenPipeError:  # the reader of our output has left, which is no bad input
        raise
    except (OSError, MemoryError, RecursionError, ValueError, RuntimeError) as error:
        sentence = _sentence(error)
        if sentence is None:
            raise
        raise BadInput(sentence) from error


def _sentence(error: Exception) -> str | None:
    """Return the sentence for an error of the system; None for any other."""
    if isinstance(error, BadInput):
        return None
    if isinstance(error, OSError):
        reason = error.strerror or " ".join(str(error).split()) or type(error).__name__
        return reason if error.filename is None else f"{quoted(error.filename)}: {reason}"
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
    """Whether TOML or JSON was being parsed: endless recursion anywhere else is a bug."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return Path(last.filename).parent.name in ("tomllib", "json") or last.name in ("loads", "decode", "raw_decode")
