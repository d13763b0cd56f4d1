"""Plans over Flower; the only package that imports flwr."""
