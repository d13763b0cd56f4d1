"""Arithmetic on releases: what each costs, for whom. Imports nothing else of gradveil, so it can be audited alone."""
