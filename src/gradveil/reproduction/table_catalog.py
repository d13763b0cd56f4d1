"""All tables by name."""

from collections.abc import Callable

from gradveil.reproduction import (  # fmt: skip
    accountants,
    adaptive_clipping,
    attack_comparison,
    attack_figures,
    attack_settings,
    claims,
    clipping_bound,
    datasets_table,
    limitations,
    noise_decay,
    noise_scale,
    population,
    privacy_fixed_rounds,
    privacy_target_accuracy,
    resilience,
    time_cost,
)
from gradveil.reproduction.cell import Table
from gradveil.reproduction.scale import Scale

TABLES: dict[str, tuple[Callable[[Scale], Table], str]] = {
    "attack-comparison": (attack_comparison.table, "DLG, GradInv and CPL: success, quality, iterations"),
    "datasets": (datasets_table.table, "the benchmark datasets and their parameters"),
    "resilience": (resilience.table, "what six methods hide at the three surfaces"),
    "population": (population.table, "accuracy over the number of clients and the share that trains"),
    "clipping-bound": (clipping_bound.table, "accuracy over the clipping bound C, five datasets"),
    "privacy-fixed-rounds": (privacy_fixed_rounds.table, "epsilon and accuracy after T rounds"),
    "privacy-target-accuracy": (privacy_target_accuracy.table, "rounds and epsilon to a target accuracy"),
    "noise-decay": (noise_decay.table, "four decays of sigma at a target epsilon"),
    "time-cost": (time_cost.table, "seconds per local iteration"),
    "adaptive-clipping": (adaptive_clipping.table, "Quantile and AdaClip: accuracy, cost, resilience"),
    "accountants": (accountants.table, "accuracy and rounds under four accountants"),
    "attack-settings": (attack_settings.table, "start, distance and round of an attack"),
    "limitations": (limitations.table, "the figure of pruning, DSSGD, random noise, Fed-SDP and Fed-CDP"),
    "attack-visualisation": (attack_figures.visualisation, "the figure of what CPL rebuilds without protection"),
    "attack-evaluation": (attack_figures.evaluation, "the figure of what CPL rebuilds under protection"),
    "noise-scale": (noise_scale.table, "MNIST at sigma 0.5 and 6, each method tuned (not in the paper)"),
    "claims": (lambda scale: claims.table(), "the paper's conclusions: holds, fails or undecided"),
}
