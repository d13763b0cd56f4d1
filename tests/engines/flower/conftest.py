"""A federation without a network."""

from nodes_in_memory import federation, identity, plan, secret, tiny
from sums_in_memory import signers, sums

__all__ = ["federation", "identity", "plan", "secret", "signers", "sums", "tiny"]
