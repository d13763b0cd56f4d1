"""`gradveil attack`: the options; `attack_steps` does the work, and is imported only when they are right."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from gradveil.cli import options
from gradveil.cli.attack_request import AttackRequest
from gradveil.cli.options import (
    PRESET,
    AsJson,
    Clip,
    DataDir,
    Decay,
    Draw,
    KeepTruth,
    Sensitivity,
    Sigma,
    SigmaEnd,
    Target,
)
from gradveil.cli.output import doing

NETWORK = "Untrained network (with --dataset)"
_data = partial(typer.Option, rich_help_panel=options.DATA)
_attack = partial(typer.Option, rich_help_panel=options.ATTACK)
_network = partial(typer.Option, rich_help_panel=NETWORK)
_privacy = partial(typer.Option, rich_help_panel=options.PRIVACY)


def attack(
    run: Annotated[
        Path | None, typer.Argument(metavar="[RUN]", help="Run folder to attack; or give --dataset.")
    ] = None,
    name: Annotated[
        str, _attack("--attack", help="A name from `gradveil list attacks`, or your own as MODULE:NAME.")
    ] = "cpl",
    server: Annotated[
        str,
        _attack(
            help="honest (only reads), or malicious (sends weights of its own making): attacks imprint and fishing."
        ),
    ] = "honest",
    surface: Annotated[
        str, _attack(help="Where gradients are read: 0 at the server, 1 as the client's update, 2 in local training.")
    ] = "2",
    view: Annotated[
        str,
        _attack(
            help="What is read: released; at surface 0 also arriving (before noise) or aggregate (only the sum over a "
            "round's clients) or model (the trained model: attack membership); at surface 2 in_memory (before noise)."
        ),
    ] = "released",
    victims: Annotated[
        int | None, _attack(help="Number of clients to attack.", show_default="10, or all if fewer")
    ] = None,
    iterations: Annotated[
        int | None, _attack(help="Most iterations of the optimizer.", show_default="the attack's own")
    ] = None,
    restarts: Annotated[
        int | None,
        _attack(
            help="Number of random restarts; the result with the smallest loss is kept.",
            show_default="the attack's own",
        ),
    ] = None,
    prior: Annotated[
        str | None,
        _attack(
            help="Prior over examples for --attack map and unrolled: gaussian, or decoder (a small network, trained on "
            "public pictures; takes a minute).",
            show_default="gaussian",
        ),
    ] = None,
    rounds: Annotated[
        str,
        _attack(
            "--round",
            metavar="ROUNDS",
            help="Run folder: number of rounds trained before gradients are read, such as 0; several, "
            "comma-separated, are combined.",
            show_default="the latest",
        ),
    ] = "",
    told_labels: Annotated[bool, _attack("--told-labels", help="Tell the adversary the true labels.")] = False,
    rule: Annotated[
        str, _attack(help="What counts as success: default (RMSE at most 0.1), paper or loss.")
    ] = "default",
    seed: Annotated[int, _attack(help="Seed of the network, the victims and the starts.")] = 0,
    keep_truth: KeepTruth = False,
    dataset: Annotated[
        str | None, _data(help="A name from `gradveil data list`, or the path of your own data.")
    ] = None,
    target: Target = None,
    data_dir: DataDir = None,
    network: Annotated[
        str | None,
        _network(
            help="attack (the paper's), trained (that of training) or mlp (dense, with biases).",
            show_default="attack for images",
        ),
    ] = None,
    batch: Annotated[
        int | None,
        _network(help="Number of examples per batch (B).", show_default="1 at surface 2, else 3"),
    ] = None,
    local_steps: Annotated[int | None, _network(help="Number of local steps (L).", show_default="1")] = None,
    cohort: Annotated[
        int | None, _network(help="View aggregate: number of clients in the sum (K).", show_default=PRESET)
    ] = None,
    lr: Annotated[float | None, _network(help="Learning rate of the clients.", show_default=PRESET)] = None,
    readings: Annotated[
        int,
        _network(help="Number of times that the gradient of the same record is observed, each time with new noise."),
    ] = 1,
    method: Annotated[
        str | None, _privacy(help="A name from `gradveil list methods`.", show_default="non-private")
    ] = None,
    clip: Clip = None,
    sigma: Sigma = None,
    decay: Decay = None,
    sigma_end: SigmaEnd = None,
    draw: Draw = None,
    sensitivity: Sensitivity = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder for the record and the pictures.",
            show_default="attacks/ in the run folder, or runs/attacks",
            rich_help_panel=options.OUTPUT,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Reconstruct training data from gradients and measure what leaked.

    Give a run folder to attack what was trained, or --dataset to attack an untrained network as the paper does.
    """
    request = AttackRequest(
        run=run, dataset=dataset, target=target, data_dir=data_dir, method=method, surface=surface, name=name,
        server=server, victims=victims, iterations=iterations, prior=prior, view=view, rounds=rounds, batch=batch,
        local_steps=local_steps, cohort=cohort, network=network, readings=readings, told_labels=told_labels, rule=rule,
        restarts=restarts, lr=lr, clip=clip, sigma=sigma, decay=decay, sigma_end=sigma_end, draw=draw,
        sensitivity=sensitivity, keep_truth=keep_truth, seed=seed, out=out, as_json=as_json,
    )  # fmt: skip
    with doing("starting JAX"):
        from gradveil.cli import attack_steps
    attack_steps.execute(request)
