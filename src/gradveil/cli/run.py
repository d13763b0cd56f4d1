"""`gradveil run`: the options; `run_steps` does the work, and is imported only when they are right."""

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from gradveil.cli import options
from gradveil.cli.options import (
    PRESET,
    THREATS,
    AsJson,
    Clip,
    DataDir,
    Decay,
    Draw,
    KeepTruth,
    SchemaFile,
    Sensitivity,
    Sigma,
    SigmaEnd,
    Target,
)
from gradveil.cli.output import doing
from gradveil.cli.run_request import RunRequest

_data = partial(typer.Option, rich_help_panel=options.DATA)
_federation = partial(typer.Option, rich_help_panel=options.FEDERATION, show_default=PRESET)
_privacy = partial(typer.Option, rich_help_panel=options.PRIVACY)
_stopping = partial(typer.Option, rich_help_panel=options.STOPPING)
_attack = partial(typer.Option, rich_help_panel=options.ATTACK)
_output = partial(typer.Option, rich_help_panel=options.OUTPUT)


def run(
    plan_file: Annotated[
        Path | None, typer.Argument(metavar="[PLAN.toml]", help="A plan file; options override its keys.")
    ] = None,
    dataset: Annotated[
        str | None,
        _data(help="A name from `gradveil data list`, or the path of your own data.", show_default="digits"),
    ] = None,
    target: Target = None,
    schema: SchemaFile = None,
    client_column: Annotated[
        str | None,
        _data(
            help="Table: the column that names each row's client.", show_default="rows are dealt to simulated clients"
        ),
    ] = None,
    test: Annotated[
        Path | None,
        _data(help="A table of rows to test on; needs --schema.", show_default="a quarter of the rows"),
    ] = None,
    validation: Annotated[
        str | None,
        _data(
            metavar="FRACTION|FILE",
            help="Validation rows, for --target-accuracy and --target-rmse: a fraction of the training rows, or a "
            "table of others (needs --schema).",
            show_default="the test rows",
        ),
    ] = None,
    client_rates: Annotated[
        str | None,
        _data(
            metavar="RATES",
            help="Sampling rate of each client: equal, batch (every client draws the same number of records), or "
            "NAME=RATE,NAME=RATE.",
            show_default="equal",
        ),
    ] = None,
    client_weights: Annotated[
        str | None,
        _data(
            metavar="WEIGHTS",
            help="Weight of each client in the average: rows (its number of rows), equal, or NAME=WEIGHT for every "
            "client, comma-separated.",
            show_default="rows",
        ),
    ] = None,
    data_dir: DataDir = None,
    train_all: Annotated[
        bool, _data("--train-all", help="MNIST: train on all 60,000 images, without a validation split.")
    ] = False,
    partition: Annotated[
        str | None,
        _data(help="How examples are split among clients: two-shards, iid or dirichlet:ALPHA.", show_default=PRESET),
    ] = None,
    rounds: Annotated[int | None, _federation(help="Number of rounds (T).")] = None,
    clients: Annotated[int | None, _federation(help="Number of clients in all (N).")] = None,
    cohort: Annotated[int | None, _federation(help="Number of clients per round (K).")] = None,
    client_size: Annotated[int | None, _federation(help="Number of examples per client.")] = None,
    local_steps: Annotated[int | None, _federation(help="Number of local steps per round (L).")] = None,
    batch: Annotated[int | None, _federation(help="Number of examples per batch (B).")] = None,
    lr: Annotated[float | None, _federation(help="Learning rate of the clients.")] = None,
    model: Annotated[
        str | None,
        _federation(
            metavar="MODULE:NAME",
            help="Your own model: MODULE is found in the working directory or among installed packages.",
        ),
    ] = None,
    sampling: Annotated[
        str | None,
        _federation(
            help="How a client draws batches: fixed-pass, poisson, allocation (every record in one random batch of a "
            "pass), replacement, whole, or your own as MODULE:NAME."
        ),
    ] = None,
    cohort_sampling: Annotated[
        str | None, _federation(help="How the server draws the clients of a round: fixed or poisson.")
    ] = None,
    seed: Annotated[
        int | None,
        _federation(help="Seed of all random draws; secret noise does not use it.", show_default="0"),
    ] = None,
    engine: Annotated[
        str,
        _federation(
            help="How clients are simulated: vectorized (together), or serial (one by one, the slow reference).",
            show_default=True,
        ),
    ] = "vectorized",
    method: Annotated[str | None, _privacy(help="A name from `gradveil list methods`.", show_default="fed-cdp")] = None,
    clip: Clip = None,
    sigma: Sigma = None,
    decay: Decay = None,
    sigma_end: SigmaEnd = None,
    draw: Draw = None,
    sensitivity: Sensitivity = None,
    noise_source: Annotated[
        str | None,
        _privacy(
            help="secret (from the operating system) or seeded (reproducible, for experiments).",
            show_default="secret for your own data, else seeded",
        ),
    ] = None,
    delta: Annotated[
        float | None, _stopping(help="Delta of the (epsilon, delta) guarantee.", show_default="1e-5")
    ] = None,
    max_epsilon: Annotated[
        float | None,
        _stopping(help="Privacy budget: stop before the round that would exceed this epsilon.", show_default="none"),
    ] = None,
    target_epsilon: Annotated[
        float | None,
        _stopping(
            help="Scale the noise so that all rounds together spend at most this epsilon; the default method is then "
            "fed-sum.",
            show_default="none",
        ),
    ] = None,
    threat_model: Annotated[
        str | None, _stopping(help=f"{THREATS}; budget and target hold against it.", show_default="server")
    ] = None,
    accountant: Annotated[
        str | None,
        _stopping(
            help="Accountant of the budget: pld, or paper-moments (the paper's; not a guarantee).", show_default="pld"
        ),
    ] = None,
    target_accuracy: Annotated[
        float | None,
        _stopping(help="Stop training once this accuracy is reached, between 0 and 1.", show_default="none"),
    ] = None,
    target_rmse: Annotated[
        float | None,
        _stopping(
            help="Stop training once this RMSE is reached, in the units of the number to predict.", show_default="none"
        ),
    ] = None,
    attack: Annotated[
        bool | None,
        _attack(
            "--attack/--no-attack",
            help="Attack the gradients of the first round when training is done.",
            show_default="only the demonstration",
        ),
    ] = None,
    keep_truth: KeepTruth = False,
    watch: Annotated[
        str,
        _attack(
            metavar="ROUNDS", help="Rounds whose model is kept for later attacks, comma-separated, such as 0,1,10."
        ),
    ] = "",
    out: Annotated[Path | None, _output(help="Run folder.", show_default="a new one in runs/")] = None,
    resume: Annotated[
        bool, _output("--resume", help="Continue the run in --out; a larger --rounds trains it further.")
    ] = False,
    dry_run: Annotated[
        bool, _output("--dry-run", help="Show the plan, its cost and its guarantees; train nothing.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Train a federated model under differential privacy.

    Without a plan, dataset and method: a demonstration of about a minute on scikit-learn's handwritten digits.
    Defaults named "preset" are the dataset's own settings (the paper's for its datasets); --dry-run shows them.
    """
    changes: dict[str, Any] = {
        "rounds": rounds, "clients": clients, "cohort": cohort, "client_size": client_size, "local_steps": local_steps,
        "batch": batch, "lr": lr, "model": model, "clip": clip, "sigma": sigma, "decay": decay, "sigma_end": sigma_end,
        "draw": draw, "sensitivity": sensitivity, "sampling": sampling, "cohort_sampling": cohort_sampling,
        "partition": partition, "noise_source": noise_source, "seed": seed, "delta": delta,
        "target_accuracy": target_accuracy, "target_rmse": target_rmse, "max_epsilon": max_epsilon,
        "accountant": accountant, "threat_model": threat_model, "train_all": train_all or None, "target": target,
        "schema": schema,
        "client_column": client_column, "client_rates": client_rates, "client_weights": client_weights, "test": test,
        "validation": validation,
        "dataset": dataset, "method": method,
    }  # fmt: skip
    request = RunRequest(
        plan_file=plan_file,
        settings={name: value for name, value in changes.items() if value is not None},
        data_dir=data_dir,
        out=out,
        watch=watch,
        attack=attack,
        keep_truth=keep_truth,
        resume=resume,
        dry_run=dry_run,
        target_epsilon=target_epsilon,
        engine=engine,
        as_json=as_json,
    )
    with doing("starting JAX"):
        from gradveil.cli import run_steps
    run_steps.execute(request)
