"""What is run: the paper's settings, and the runner that trains, evaluates, records and stops."""
