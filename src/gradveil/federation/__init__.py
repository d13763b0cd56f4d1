"""Algorithm 1: clients, server, rounds, and what each round releases."""
