"""All tables by name: what each shows, and which function lays it out. Importing this imports nothing heavy."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gradveil.reproduction.cell import Table
    from gradveil.reproduction.scale import Scale


@dataclass(frozen=True, slots=True)
class TableEntry:
    """What a table shows, and the `module:function` of this room that lays it out."""

    meaning: str
    layout: str


TABLES: dict[str, TableEntry] = {
    "attack-comparison": TableEntry("DLG, GradInv and CPL: success, quality, iterations", "attack_tables:comparison"),
    "datasets": TableEntry("the benchmark datasets and their parameters", "training_tables:datasets"),
    "resilience": TableEntry("what six methods hide at the three surfaces", "attack_tables:resilience"),
    "population": TableEntry(
        "accuracy over the number of clients and the percentage that trains", "training_tables:population"
    ),
    "clipping-bound": TableEntry("accuracy over the clipping bound C, five datasets", "training_tables:clipping_bound"),
    "privacy-fixed-rounds": TableEntry("epsilon and accuracy after T rounds", "privacy_tables:fixed_rounds"),
    "privacy-target-accuracy": TableEntry("rounds and epsilon to a target accuracy", "privacy_tables:target_accuracy"),
    "noise-decay": TableEntry("four decays of sigma at a target epsilon", "privacy_tables:noise_decay"),
    "time-cost": TableEntry("seconds per local iteration", "training_tables:time_cost"),
    "adaptive-clipping": TableEntry(
        "Quantile and AdaClip: accuracy, cost, resilience", "training_tables:adaptive_clipping"
    ),
    "accountants": TableEntry("accuracy and rounds under four accountants", "privacy_tables:accountants"),
    "attack-settings": TableEntry("start, distance and round of an attack", "attack_tables:attack_settings"),
    "limitations": TableEntry(
        "the figure of pruning, DSSGD, random noise, Fed-SDP and Fed-CDP", "attack_tables:limitations"
    ),
    "attack-visualisation": TableEntry(
        "the figure of what CPL rebuilds without protection", "attack_tables:visualization"
    ),
    "attack-evaluation": TableEntry("the figure of what CPL rebuilds under protection", "attack_tables:evaluation"),
    "noise-scale": TableEntry(
        "MNIST at sigma 0.5 and 6, each method tuned (not in the paper)", "training_tables:noise_scale"
    ),
    "claims": TableEntry("the paper's conclusions: holds, fails or undecided", "claims:table"),
}

NOT_OF_THE_PAPER = {"sound": "accuracy at proved epsilons on six datasets, beside the paper's unsound figures"}
"""Tables that have runs of their own instead of the paper's cells, and what each shows; `all` leaves them out."""


def lay_out(name: str, scale: "Scale") -> "Table":
    """Return a table of this scale with its cells, none of them filled."""
    module, _, function = TABLES[name].layout.partition(":")
    layout: Callable[[Scale], Table] = getattr(import_module(f"gradveil.reproduction.{module}"), function)
    return layout(scale)
