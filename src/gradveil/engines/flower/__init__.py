"""The same plan over Flower: the only room that knows flwr."""
