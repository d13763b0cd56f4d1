"""Training runs: one plan trained, accounted, recorded and resumed."""
