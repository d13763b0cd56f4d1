"""Why a figure of the paper does not come out, where that was found out; docs/fidelity.md tells more."""

STEPS = "3 rounds are 300 local steps; 0.138 belongs to about 253"
WRONG_UNIT = "the printed figure is the one of 300 local steps, an example's, not a client's"
ROUNDED = "the printed figure follows from a per-step epsilon of 0.0123354; the formula gives 0.0123457"
NO_CYCLE = "no code of the authors holds the cyclic decay; ours is one cycle of the printed formula from sigma 15"
STRETCHED = "the schedules that give MNIST's rounds exactly, stretched to T, do not give these"

KNOWN: dict[tuple[str, str, str, str], str] = {
    ("privacy-fixed-rounds", "fed-sdp", "epsilon", "cancer"): WRONG_UNIT,
    ("privacy-fixed-rounds", "fed-cdp", "epsilon", "cancer"): STEPS,
    ("privacy-fixed-rounds", "fed-alpha-cdp", "epsilon", "cancer"): STEPS,
    ("privacy-target-accuracy", "fed-sdp", "epsilon", "cancer"): WRONG_UNIT,
    ("noise-decay", "fed-cdp", "epsilon", "cancer"): STEPS,
    ("accountants", "any", "epsilon", "base"): ROUNDED,
    ("accountants", "any", "epsilon", "advanced"): ROUNDED,
}


def why(table: str, row: tuple[str, ...], column: tuple[str, ...]) -> str:
    """Give the cause of a difference, or nothing where it is not known."""
    place = (table, *row, *column)
    if len(place) == 4 and place[2] == "rounds" and table in ("noise-decay", "accountants"):
        return NO_CYCLE if place[1] == "cyclic" else STRETCHED
    return KNOWN.get(place, "") if len(place) == 4 else ""
