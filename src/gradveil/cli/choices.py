"""From words on the command line to the parts they name."""

from gradveil.errors import BadInput, quoted
from gradveil.runs.shorthand import SAMPLING_NAMES, Tweaks, divided, method_named, number, partition_from, pick

__all__ = ["SAMPLING_NAMES", "Tweaks", "divided", "method_named", "number", "partition_from", "pick", "rounds_from"]


def rounds_from(text: str, option: str = "watch") -> frozenset[int]:
    """Read round numbers separated by commas."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not all(word.isdecimal() and len(word) < 10 for word in words) or (text and not words):
        raise BadInput(f"{option} = {quoted(text)}: must be round numbers separated by commas, such as 0,1,10")
    return frozenset(map(int, words))
