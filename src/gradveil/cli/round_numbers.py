"""Round numbers on the command line."""

from gradveil.errors import BadInput, quoted


def rounds_from(text: str, option: str = "watch") -> frozenset[int]:
    """Read round numbers separated by commas."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not all(word.isdecimal() and len(word) < 10 for word in words) or (text and not words):
        raise BadInput(f"{option} = {quoted(text)}: must be round numbers separated by commas, such as 0,1,10")
    return frozenset(map(int, words))
