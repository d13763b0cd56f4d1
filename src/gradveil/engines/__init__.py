"""Ways to train a cohort: one client after another, in parallel on this machine, or over Flower."""
