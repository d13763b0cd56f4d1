"""A plan on many machines: what the server does with answers, and what a node does with orders."""
