"""What can be named on the command line, and what each name means: words only, so that listing them imports nothing.

The values behind the names are in `methods`, `attacks.zoo` and `accounting.threats`, whose names must be these.
"""

import difflib
from typing import Any, TypeVar

from gradveil.errors import BadInput, quoted

T = TypeVar("T")

METHODS: dict[str, str] = {
    "non-private": "plain federated averaging (FedAvg); no protection",
    "fed-sdp": "the server clips each client's update and adds noise to their sum; it sees the raw updates",
    "fed-sdp-client": "each client clips its update and adds noise before sending it",
    "fed-cdp": "each client clips every example's gradient and adds noise in every local step; sensitivity S = C",
    "fed-alpha-cdp": "Fed-CDP with noise scaled to the largest clipped norm (l2-max): no finite guarantee",
    "fed-alpha-cdp-sigma": "Fed-alphaCDP with a decaying noise scale: no finite guarantee",
    "quantile": "Fed-CDP whose clipping bound follows a noisy quantile of the gradient norms",
    "adaclip": "Fed-CDP that whitens each coordinate by a mean and a spread learned from noisy gradients",
    "fed-slack": "Fed-CDP whose clipping bound follows noisy norms that each gradient carries along, at no epsilon",
    "fed-sum": "each client sends noisy sums over all its records, in few rounds: mean, second moment, gradients",
    "dssgd": "each client sends a random tenth of its large coordinates, bounded; no guarantee",
    "pruning": "each client sets the smallest coordinates of its update to zero; no guarantee",
    "random-noise": "each client adds N(0, 0.01) to its unclipped update; no guarantee",
    "fed-alpha-cdp-as-coded": "Fed-alphaCDP as its authors' code does it: each example clipped to its own norm",
    "dssgd-noisy": "DSSGD whose update is also clipped and noised before it is sent",
}

ATTACKS: dict[str, str] = {
    "dlg": "matches the gradient in squared L2 by L-BFGS from a random start, label unknown (Zhu et al.)",
    "idlg": "DLG with the label from the sign of the last layer's gradient (Zhao et al.)",
    "cpl": "the paper's: DLG from a tiled start with the label from the last layer's sums (Wei et al.)",
    "gradinv": "matches only the direction, with total variation and bounds, by signed Adam (Geiping et al.)",
    "gradinv-layers": "GradInv that matches the direction of every layer alike",
    "gradinv-lbfgs": "GradInv by L-BFGS, its bounds as a squashing function; nearer after far fewer evaluations",
    "analytic": "divides the gradient of a dense first layer by that of its bias; exact for one example",
    "exact": "takes the gradient of a dense first layer apart by rank and ReLU zeros: whole batches (Dimitrov et al.)",
    "map": "finds the likeliest example given the noise and the clipping, with a prior from public examples",
    "unrolled": "MAP from class means, for updates: through up to 20 local steps; beyond, as one big batch",
    "table": "MAP for table rows: categories as proportions, numbers within their range",
    "learned": "a small network from the noisy gradient to the example, trained on public examples",
}

INFERENCES: dict[str, str] = {
    "membership": "tells whether a record was used, by likelihood ratio, or from the trained model with --view model",
}
"""Attacks that rebuild no record."""

MALICIOUS: dict[str, str] = {
    "imprint": "sends a first layer whose units are bins, each holding few examples (Fowl et al.)",
    "fishing": "sends a last layer that lets the examples of one class through, then attack exact (Wen et al.)",
}
"""Attacks of a server that changes the weights it sends (`--server malicious`)."""

DECAYS: dict[str, str] = {
    "constant": "sigma_t = sigma_0",
    "linear": "sigma_t = sigma_0 (1 - gamma t), reaching sigma_T at t = T",
    "staircase": "sigma_t = sigma_0 (1 - gamma floor(10 t / T)), reaching sigma_T at t = T",
    "exponential": "sigma_t = sigma_0 exp(-gamma t), reaching sigma_T at t = T",
    "cyclic": "cosine from sigma_0 towards 0, once over the run; sigma_T is the floor (0 as the paper prints it)",
}

THREATS: dict[str, str] = {
    "central": "sees only the models; which clients took part in a round stays secret (Poisson cohorts)",
    "central-visible": "sees only the models, and can tell from them which clients took part",
    "aggregate": "sees only the sum over a round's clients, and the noise of those that are not honest",
    "alone": "works with every other node of a secure sum: only a node's own noise is left",
    "server": "sees every client's update; which records are in a batch stays secret",
    "type2-secret": "also sees the noisy gradient of every local step; batches stay secret",
    "type2-known": "also sees the noisy gradient of every local step and knows the records of each batch",
    "client-central": "sees only the models; protects all records of a client together",
    "client-server": "sees every client's update; protects all records of a client together",
}


def pick(option: str, name: Any, among: dict[str, T]) -> T:
    """Find a name in a table, or say which names there are."""
    if isinstance(name, str) and name in among:
        return among[name]
    near = difflib.get_close_matches(name, among, n=1) if isinstance(name, str) else []
    hint = f" (did you mean {near[0]}?)" if near else ""
    raise BadInput(f"{option} = {quoted(name)}: must be one of {', '.join(among)}{hint}")
