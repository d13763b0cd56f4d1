"""What `gradveil federate key`, `keys`, `roster` and `policy` do: a private key is made where it is used."""

from dataclasses import replace
from pathlib import Path

import typer

from gradveil.aggregation.roster import KeyRoster, key_fingerprint
from gradveil.cli.output import emit_json
from gradveil.deployment import enrollment
from gradveil.deployment.policy import AGGREGATE, Policy
from gradveil.deployment.policy_file import as_toml
from gradveil.deployment.summing import epochs_of
from gradveil.engines.flower import credentials
from gradveil.errors import BadInput
from gradveil.runs import store


def make_key(name: str, folder: Path, as_json: bool) -> None:
    """Make a node's key pair here, and print the fingerprint of its public half."""
    private, public = credentials.make_pair(folder, name)
    line = enrollment.read_public([public])[name]
    if as_json:
        return emit_json({"key": str(private), "public": str(public), "fingerprint": key_fingerprint(line)})
    typer.echo(f"{private}  (secret: it must not leave this machine)\n{public}\nfingerprint {key_fingerprint(line)}")
    typer.echo(f"Send {public.name} to the server, and tell the fingerprint to its operator by another way.")


def make_credentials(folder: Path, hosts: tuple[str, ...], nodes: tuple[str, ...], as_json: bool) -> None:
    """Make a server's credentials for nodes named by their public halves, or by names for a trial on one machine."""
    halves = [node for node in nodes if node.endswith(".pub")]
    if halves and len(halves) < len(nodes):
        other = next(node for node in nodes if node not in halves)
        raise BadInput(f"nodes: {other!r} must end in .pub as the others do; a key is made by its own node")
    if halves:
        files = credentials.enroll(folder, hosts, enrollment.read_public([Path(half) for half in halves]))
    else:
        files = credentials.make(folder, hosts, nodes)
    roster = enrollment.read_roster(folder / credentials.ROSTER)
    if as_json:
        return emit_json({"files": [str(file) for file in files], "fingerprint": roster.digest})
    for file in files:
        typer.echo(f"{file}{'  (secret)' if file.suffix == '.key' else ''}")
    _describe(roster)
    typer.echo(_ENROLLED if halves else _ALL_HERE)


_ENROLLED = (
    f"Give each node {credentials.CA} and {credentials.ROSTER}; all compare the roster's fingerprint by telephone.\n"
    f"Keep {credentials.CA_KEY} offline: it signs certificates."
)
_ALL_HERE = (
    "The nodes' private keys were made here, so whoever reads this folder can sign as any node: for trials on one\n"
    "machine. For a real federation run `gradveil federate key NAME` on each node, and name the .pub files here.\n"
    f"Copy to each node only its own .key and {credentials.CA}.\n"
    f"Keep {credentials.CA_KEY} offline: it signs certificates."
)


def show_roster(path: Path, halves: tuple[str, ...], as_json: bool) -> None:
    """Write a roster of public halves to a new file, or read one, and print the fingerprints to compare."""
    if halves:
        if path.exists():
            raise BadInput(f"{str(path)!r}: exists already; name a new file")
        roster = KeyRoster(enrollment.read_public([Path(half) for half in halves]))
        store.write_json(path, roster.plain())
    roster = enrollment.read_roster(path)
    if as_json:
        keys = {name: key_fingerprint(line) for name, line in roster.plain()["nodes"].items()}
        return emit_json({"nodes": keys, "fingerprint": roster.digest})
    _describe(roster)


def _describe(roster: KeyRoster) -> None:
    for name, line in roster.plain()["nodes"].items():
        typer.echo(f"{name}  {key_fingerprint(line)}")
    typer.echo(f"roster of {len(roster.keys)} nodes, fingerprint\n  {roster.fingerprint}")


def write_policy(rules: Policy, roster: Path | None, out: Path | None) -> None:
    """Print a policy, or write it to a new file; with a roster, secure sums count against `aggregate`."""
    if roster is not None:
        rules = replace(rules, adversary=AGGREGATE, roster=enrollment.read_roster(roster).digest)
    if out is None:
        return typer.echo(as_toml(rules), nl=False)
    if out.exists():
        raise BadInput(f"out = {str(out)!r}: exists already; name a new file")
    store.write(out, as_toml(rules).encode(), owner_only=True)
    typer.echo(f"{out}\nRead it, edit it, and start the node with --policy {out}")


def pinned_roster(
    state: Path, roster: Path | None, renew: bool, key: Path, policy: Policy | None = None
) -> KeyRoster | None:
    """Pin the roster that a node was given, or take the one that it pinned before.

    Its own key must be in it, and it must be the one that the policy names.
    """
    if roster is None and renew:
        raise BadInput("--new-roster: name the new one with --roster")
    known = enrollment.pinned(state) if roster is None else enrollment.read_roster(roster)
    if known is None:
        if policy is not None and policy.roster is not None:
            raise BadInput("roster: the policy names one; give it with --roster")
        return None
    enrollment.own_name(known, key)
    if policy is not None:
        epochs_of(policy, known, enrollment.read_signer(key))
    if roster is not None:
        enrollment.pin(state, known, renew)
    return known
