"""`gradveil tune`: the options; `tune_steps` does the work, and is imported only when they are right."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from gradveil.cli import options
from gradveil.cli.options import THREATS, AsJson, DataDir, SchemaFile, Target
from gradveil.cli.output import doing
from gradveil.cli.tune_request import TuneRequest

_data = partial(typer.Option, rich_help_panel=options.DATA)
_federation = partial(typer.Option, rich_help_panel=options.FEDERATION)
_privacy = partial(typer.Option, rich_help_panel=options.PRIVACY)
_stopping = partial(typer.Option, rich_help_panel=options.STOPPING)
_output = partial(typer.Option, rich_help_panel=options.OUTPUT)


def tune(
    dataset: Annotated[str, _data(help="A name from `gradveil data list`, or the path of your own data.")],
    target: Target = None,
    schema: SchemaFile = None,
    data_dir: DataDir = None,
    on: Annotated[
        str,
        _data(
            help="Data to try settings on: synthetic (made up, of the same shape), public:NAME (a built-in dataset), "
            "or private (your own; counted in epsilon)."
        ),
    ] = "synthetic",
    clients: Annotated[
        int | None, _federation(help="Number of clients in all (N).", show_default=options.PRESET)
    ] = None,
    seed: Annotated[int, _federation(help="Seed of all random draws; secret noise does not use it.")] = 0,
    method: Annotated[str, _privacy(help="A name from `gradveil list methods`.")] = "fed-sum",
    noise_source: Annotated[
        str | None,
        _privacy(
            help="secret (from the operating system) or seeded (reproducible, for experiments).",
            show_default="secret for your own data, else seeded",
        ),
    ] = None,
    trials: Annotated[
        int,
        _stopping(
            help="Number of settings to try; on private data against central adversaries, the mean of a random, secret "
            "number."
        ),
    ] = 12,
    target_epsilon: Annotated[
        float, _stopping(help="Most epsilon that the run spends, together with trials on private records.")
    ] = 1.0,
    threat_model: Annotated[str, _stopping(help=f"{THREATS}; the target holds against it.")] = "server",
    delta: Annotated[float, _stopping(help="Delta of the (epsilon, delta) guarantee.")] = 1e-5,
    out: Annotated[Path, _output(help="Plan file to write; the record of the trials goes beside it.")] = Path(
        "tuned.toml"
    ),
    as_json: AsJson = False,
) -> None:
    """Find settings for your data and write them as a plan for `gradveil run`.

    Each trial is scored on a fifth of the training examples, which it does not train on; test examples are not used.
    A tuning that was killed goes on with the same command.
    """
    request = TuneRequest(
        dataset=dataset,
        target=target,
        schema=schema,
        data_dir=data_dir,
        on=on,
        method=method,
        trials=trials,
        target_epsilon=target_epsilon,
        threat_model=threat_model,
        delta=delta,
        seed=seed,
        noise_source=noise_source,
        clients=clients,
        out=out,
        as_json=as_json,
    )
    with doing("starting JAX"):
        from gradveil.cli import tune_steps
    tune_steps.execute(request)
