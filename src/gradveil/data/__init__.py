"""Who holds which examples: datasets, where they come from, how they are split among clients and sampled."""
