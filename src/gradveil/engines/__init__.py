"""Ways to train a cohort: one client after another, or mapped over the cores of this machine."""
