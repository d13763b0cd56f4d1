"""A federation without a network."""

from nodes_in_memory import federation, identity, plan, secret, tiny

__all__ = ["federation", "identity", "plan", "secret", "tiny"]
