"""`gradveil federate policy`: what the owner of a node's data allows, as a file to edit."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from gradveil.cli.options import OUTPUT
from gradveil.errors import BadInput

_limits = partial(typer.Option, rich_help_panel="What the server may do")
_budget = partial(typer.Option, rich_help_panel="Privacy budget")
_sums = partial(typer.Option, rich_help_panel="Secure sums")


def policy(
    out: Annotated[
        Path | None, typer.Option(help="New file to write.", show_default="standard output", rich_help_panel=OUTPUT)
    ] = None,
    methods: Annotated[
        str, _limits(help="Methods allowed, comma-separated names from `gradveil list methods`.")
    ] = "fed-cdp,fed-sdp-client",
    minimum_sigma: Annotated[
        float, _limits(help="Least noise: standard deviation divided by the clipping bound.")
    ] = 1.0,
    maximum_rounds: Annotated[int, _limits(help="Most rounds that this node takes part in, over all plans.")] = 100,
    maximum_epsilon: Annotated[
        float, _budget(help="Privacy budget: most epsilon against the server, over all plans.")
    ] = 8.0,
    maximum_delta: Annotated[float, _budget(help="Most delta, over all plans.")] = 1e-4,
    roster: Annotated[
        Path | None,
        _sums(
            help="Roster that all nodes compared; secure sums over its nodes are then counted against `aggregate`.",
            show_default="none",
        ),
    ] = None,
    tolerated: Annotated[int, _sums(help="Number of colluding nodes that a secure sum must withstand.")] = 1,
    minimum_nodes: Annotated[
        int | None, _sums(help="Least number of nodes in a secure sum.", show_default="two thirds of the roster")
    ] = None,
    maximum_alone_epsilon: Annotated[
        float | None,
        _sums(
            help="Most epsilon against all other nodes together (threat model `alone`), over all plans.",
            show_default="none",
        ),
    ] = None,
    audit_canaries: Annotated[int, _limits(help="Most local records that canaries of an audit may replace.")] = 0,
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
