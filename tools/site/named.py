"""What can be named: methods with their parts, adversaries, attacks, decays, datasets, tables."""

from typing import Any

from tools.site.markdown import cell, code, table

from gradveil import names
from gradveil.cli.list import listing
from gradveil.methods import METHODS

SURFACES = {0: "0, server", 1: "1, update", 2: "2, example"}


def page() -> str:
    """Return the page of names."""
    return "\n\n".join(["# Names", *_methods(), *_threats(), *_others()]) + "\n"


def _methods() -> list[str]:
    rows = [[code(name), cell(named.meaning)] for name, named in METHODS.items()]
    made = [[code(name), *_parts(named.value)] for name, named in METHODS.items()]
    head = ["method", "surface", "prune", "clip", "sensitivity", "noise", "draw"]
    return [
        "## Methods",
        "[Which method for whom](../methods.md) helps to choose. `--method` takes these names.",
        table(["method", "what it does"], rows),
        "The same methods as the parts they are made of (`gradveil.methods`); presets change C and sigma:",
        table(head, made),
    ]


def _parts(method: Any) -> list[str]:
    parts = [method.prune, method.clip, method.sensitivity, method.noise]
    return [SURFACES[int(method.surface)], *(code(part) for part in parts), method.draw.name.lower()]


def _threats() -> list[str]:
    rows = [[code(name), cell(f"{sees[0].upper()}{sees[1:]}.")] for name, sees in names.THREATS.items()]
    return [
        "## Threat models",
        "Each epsilon is one against an adversary. [Accounting](../accounting.md) says how each is computed.",
        table(["adversary", "what it sees"], rows),
    ]


def _others() -> list[str]:
    titles = {"attacks": "Attacks", "decays": "Decays of the noise scale", "datasets": "Datasets", "tables": "Tables"}
    found = []
    for kind, title in titles.items():
        found += [f"## {title}", table(["name", "meaning"], ([code(n), cell(m)] for n, m in listing(kind).items()))]
    return found
