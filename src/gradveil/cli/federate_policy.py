"""`gradveil federate policy`: what the owner of a node's data allows, as a file to edit."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from gradveil.errors import BadInput

Opt = typer.Option


def policy(
    out: Annotated[Path | None, Opt(help="New file to write.", show_default="printed")] = None,
    methods: Annotated[
        str, Opt(help="Methods allowed, comma-separated names from `gradveil list methods`.")
    ] = "fed-cdp,fed-sdp-client",
    minimum_sigma: Annotated[float, Opt(help="Least noise: standard deviation divided by the clipping bound.")] = 1.0,
    maximum_rounds: Annotated[int, Opt(help="Most rounds that this node takes part in, over all plans.")] = 100,
    maximum_epsilon: Annotated[
        float, Opt(help="Privacy budget: most epsilon against the server, over all plans.")
    ] = 8.0,
    maximum_delta: Annotated[float, Opt(help="Most delta, over all plans.")] = 1e-4,
    roster: Annotated[
        Path | None,
        Opt(
            help="Roster that all nodes compared: secure sums over its nodes are counted against `aggregate`.",
            show_default="none",
        ),
    ] = None,
    tolerated: Annotated[int, Opt(help="Colluding nodes that a secure sum must bear.")] = 1,
    minimum_nodes: Annotated[
        int | None, Opt(help="Fewest nodes of a secure sum.", show_default="two thirds of the roster")
    ] = None,
    maximum_alone_epsilon: Annotated[
        float | None, Opt(help="Most epsilon if all other nodes collude, over all plans.", show_default="none")
    ] = None,
    audit_canaries: Annotated[int, Opt(help="Records here that may give their places to an audit's canaries.")] = 0,
) -> None:
    """Write a strict policy for a node: what a server may do with its data."""
    from gradveil.cli.federate_keys import write_policy
    from gradveil.deployment.policy import STRICT

    rules = replace(
        STRICT,
        methods=listed("methods", methods),
        minimum_sigma=minimum_sigma,
        maximum_rounds=maximum_rounds,
        maximum_epsilon=maximum_epsilon,
        maximum_delta=maximum_delta,
        tolerated=tolerated,
        minimum_nodes=minimum_nodes,
        maximum_alone_epsilon=maximum_alone_epsilon,
        audit_canaries=audit_canaries,
    )
    write_policy(rules, roster, out)


def listed(name: str, text: str) -> tuple[str, ...]:
    """Read names separated by commas."""
    names = tuple(part.strip() for part in text.split(",") if part.strip())
    if not names:
        raise BadInput(f"{name}: at least one name is needed")
    return names
