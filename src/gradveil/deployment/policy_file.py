"""A policy as a commented TOML file."""

from gradveil.deployment.policy import AGGREGATE, Policy

_HEAD = """\
# What may be done with the data of this node. The node refuses every order that breaks a rule, and says which.
# The owner of the data sets it; the server cannot change it.
"""
_MEANING = {
    "methods": "Methods that may run. These draw their noise here, before anything is sent.",
    "minimum_sigma": "The least noise on every sum that is sent, as a multiple of the clipping bound C.",
    "maximum_rounds": "Rounds that are served in all, over all plans and restarts.",
    "maximum_epsilon": (
        "What the server may learn about one record (for fed-sdp-client: one client), over all plans and restarts.\n"
        "# Accounted by PLD against an adversary who sees every update that leaves this node."
    ),
    "maximum_delta": "The probability that epsilon fails, over all plans; keep it below 1 / number of records here.",
    "allow_seeded": "Whether noise may come from a seed that the server knows, and so could subtract: for tests only.",
    "allow_no_guarantee": (
        "Whether methods may run for which no finite epsilon holds against the server: no noise, noise that is added\n"
        "# only at the server, or noise that follows the private gradients (l2-max)."
    ),
    "model_sha256": "The only model that may be trained, by the digest that a refusal names.",
    "drawn_weights": (
        "Whether the weights of the first round must be those that the plan's seed draws. A server that sends others\n"
        "# can make a layer of them that sorts the records; only the noise stops that in later rounds."
    ),
    "adversary": (
        'Against whom secure sums are counted: "server" trusts no other node; "aggregate" trusts all but `tolerated`\n'
        "# of them, and that their operators compared the roster."
    ),
    "roster": "The fingerprint of the only roster of nodes that this node sums with.",
    "tolerated": "Colluding nodes that a secure sum must bear.",
    "minimum_nodes": "The fewest nodes of a secure sum; two thirds of the roster unless given.",
    "maximum_alone_epsilon": "What may be learned from secure sums if all other nodes collude, over all plans.",
    "audit_canaries": (
        "How many records of this node may give their places to canaries, records of nobody by which\n"
        "# `gradveil audit` measures what updates reveal. Those records are not trained on."
    ),
}
_MEANING_AGAINST_SUMS = {
    "minimum_sigma": (
        "The least noise on every sum that is sent, as a multiple of the clipping bound C; of a secure sum\n"
        "# the noise of all nodes together, less that of `tolerated` of them."
    ),
    "maximum_epsilon": (
        "What the server may learn about one record (for fed-sdp-client: one client), over all plans and restarts.\n"
        "# Accounted by PLD: secure sums against an adversary who sees only sums over nodes and knows what\n"
        "# `tolerated` of them added, all else against an adversary who sees every update that leaves this node."
    ),
}
"""What differs where adversary = "aggregate"."""


def as_toml(policy: Policy) -> str:
    """Return a policy as TOML, with a comment above every key; a limit that is not set is left out."""
    lines = [_HEAD]
    meanings = _MEANING | (_MEANING_AGAINST_SUMS if policy.adversary == AGGREGATE else {})
    for name, meaning in meanings.items():
        value = getattr(policy, name)
        if value is not None:
            lines.append(f"# {meaning}\n{name} = {_toml(value)}\n")
    return "\n".join(lines)


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return "[" + ", ".join(f'"{item}"' for item in value) + "]"
    if isinstance(value, str):
        return f'"{value}"'
    return repr(value)
