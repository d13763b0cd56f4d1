"""Options that several verbs share, and the panels of --help; imports nothing heavy, since every verb needs them."""

from pathlib import Path
from typing import Annotated

from typer import Context, Option

DATA, FEDERATION, PRIVACY = "Data", "Federation and training", "Privacy"
STOPPING, ATTACK, OUTPUT = "Accounting and stopping", "Attack", "Output"
KEYS, NETWORK, SCOPE = "Keys and policy", "Network", "What to compute"
RELEASES, SAMPLING, GUARANTEE = "Noise and releases", "Sampling", "Guarantee"
PRESET = "preset"
METHOD_OWN = "method's own"
DECAYS = "constant, linear, staircase, exponential or cyclic"
THREATS = "Adversary, a name from `gradveil list threats`"

AsJson = Annotated[bool, Option("--json", help="Print one JSON object instead of tables.", rich_help_panel=OUTPUT)]
DataDir = Annotated[
    Path | None,
    Option(
        help="Folder to search for datasets first.", show_default="$GRADVEIL_DATA, then cache", rich_help_panel=DATA
    ),
]
Target = Annotated[str | None, Option(help="Table: the column to predict.", rich_help_panel=DATA)]
SchemaFile = Annotated[
    Path | None,
    Option(
        "--schema",
        help="Table: how its columns become features, a TOML file as `gradveil data schema` drafts it.",
        show_default="from the private rows",
        rich_help_panel=DATA,
    ),
]
KeepTruth = Annotated[
    bool,
    Option(
        "--keep-truth",
        help="Your own data: store true records next to their reconstructions, for `report --show-truth`.",
        rich_help_panel=ATTACK,
    ),
]
Clip = Annotated[
    str | None,
    Option(
        metavar="[KIND:]C",
        help="Clipping bound C (L2 norm); KIND is flat or per-layer. Or your own clip as MODULE:NAME.",
        show_default=PRESET,
        rich_help_panel=PRIVACY,
    ),
]
Sigma = Annotated[
    float | None,
    Option(
        help="Noise scale: standard deviation divided by the sensitivity; sigma_0 if it decays.",
        show_default=PRESET,
        rich_help_panel=PRIVACY,
    ),
]
Decay = Annotated[
    str | None,
    Option(
        help=f"How the noise scale changes over rounds: {DECAYS}; or MODULE:NAME.",
        show_default=METHOD_OWN,
        rich_help_panel=PRIVACY,
    ),
]
SigmaEnd = Annotated[
    float | None,
    Option(help="Noise scale at the end of the decay, sigma_T.", show_default=METHOD_OWN, rich_help_panel=PRIVACY),
]
Draw = Annotated[
    str | None,
    Option(
        help="What noise is added to: each (clipped unit), sum or mean.",
        show_default=METHOD_OWN,
        rich_help_panel=PRIVACY,
    ),
]
Sensitivity = Annotated[
    str | None,
    Option(
        help="What noise is scaled to: clip-bound, l2-max, l2-max-of-mean, l2-max-as-coded, or MODULE:NAME.",
        show_default=METHOD_OWN,
        rich_help_panel=PRIVACY,
    ),
]

Rate = Annotated[
    float,
    Option(
        "--q",
        help="Sampling rate of examples: batch size divided by the client's examples, B / |D_i|.",
        rich_help_panel=SAMPLING,
    ),
]
BatchSampling = Annotated[
    str,
    Option(
        "--sampling",
        help="How batches are drawn: fixed-pass, poisson, allocation or replacement.",
        rich_help_panel=SAMPLING,
    ),
]
ClientRate = Annotated[
    float,
    Option(
        "--client-q",
        help="Sampling rate of clients: clients per round divided by all clients, K / N.",
        rich_help_panel=SAMPLING,
    ),
]
Participations = Annotated[
    int | None,
    Option(help="Most rounds that any one client takes part in.", show_default="all", rich_help_panel=SAMPLING),
]
Copies = Annotated[
    int, Option(help="Largest number of clients that hold a copy of the same record.", rich_help_panel=SAMPLING)
]
BatchSize = Annotated[
    int | None,
    Option(
        "--batch",
        help="Batch size (B); needed by --draw each or mean, and for whole clients.",
        rich_help_panel=SAMPLING,
    ),
]
ClientSize = Annotated[
    int | None,
    Option(
        "--client-size",
        help="Number of examples per client (|D_i|); B is then q times |D_i|.",
        rich_help_panel=SAMPLING,
    ),
]
Layers = Annotated[
    int, Option(help="Number of tensors clipped separately; 1 is flat clipping.", rich_help_panel=RELEASES)
]
NoiseDecay = Annotated[str, Option("--decay", help=f"How the noise scale changes: {DECAYS}.", rich_help_panel=RELEASES)]
NoiseEnd = Annotated[
    float | None,
    Option("--sigma-end", help="Noise scale at the end of the decay, sigma_T.", rich_help_panel=RELEASES),
]
NoiseDraw = Annotated[
    str, Option("--draw", help="What noise is added to: each (clipped unit), sum or mean.", rich_help_panel=RELEASES)
]
Delta = Annotated[float, Option(help="Delta of the (epsilon, delta) guarantee.", rich_help_panel=GUARANTEE)]
Adjacency = Annotated[
    str,
    Option(
        help="Neighboring datasets: add-remove (one record or client zeroed out) or replace-one.",
        rich_help_panel=GUARANTEE,
    ),
]


def is_given(context: Context, name: str) -> bool:
    """Whether an option was given rather than left at its default."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"
