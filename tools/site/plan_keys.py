"""What each key of plan.toml means there: values are those of the file, not the words of the command line."""

PLAN = {
    "dataset": "A name from `gradveil data list`, or the path of your own data.",
    "method": "The protection: a name from `gradveil list methods`, fitted to the dataset, or its parts as a table.",
    "clients": "Number of clients in all (N).",
    "cohort": "Number of clients per round (K).",
    "rounds": "Number of rounds (T).",
    "local_steps": "Number of local steps of a client per round (L).",
    "batch": "Number of examples per batch (B).",
    "client_size": "Number of examples per client; the largest, where `client_sizes` are given.",
    "learning_rate": "Learning rate of the clients (eta); `--lr` on the command line.",
    "target": "Table: the column to predict.",
    "schema": "Table: how its columns become features, with the keys of schema.toml.",
    "client_column": "Table: the column that names each row's client.",
    "test": "The path of a table of rows to test on; needs `schema`.",
    "validation": "The fraction of the training rows that is held out to stop by.",
    "validation_file": "The path of a table of other rows to stop by; needs `schema`.",
    "client_sizes": "Number of examples of each client, where they differ.",
    "client_names": "Names of the clients in their order, where nodes hold them; from `gradveil federate clients`.",
    "client_rates": "Probability with which each client draws one of its records into a batch, one number a client; "
    "batch / client_size for all unless given. The command line takes words and names instead.",
    "client_weights": "Weight of each client in the average, one number a client; their numbers of examples unless "
    "given. The command line takes words and names instead.",
    "train_all": "MNIST: train on all 60,000 images, without a validation split.",
    "model": 'The network as a table with its `kind`, or your own as "package.module:Name".',
    "partition": "How the examples are split among clients.",
    "sampling": 'How a client draws batches, as a table with its `kind`, or your own as "package.module:Name".',
    "cohort_sampling": "How the server draws the clients of a round: K of them, or each with probability K / N.",
    "noise_source": "`secret`: from the operating system. `seeded`: reproducible, for experiments; whoever knows the "
    "seed can subtract the noise.",
    "seed": "Seed of all random draws; secret noise does not use it.",
    "delta": "Delta of the (epsilon, delta) guarantee.",
    "target_accuracy": "Stop at this accuracy, between 0 and 1.",
    "target_rmse": "Stop at this RMSE, in the units of the number to predict.",
    "max_epsilon": "Privacy budget: stop before the round that would exceed this epsilon.",
    "accountant": "Accountant of the budget: `pld`, or `paper-moments` (the paper's; not a guarantee).",
    "threat_model": "Adversary against whom the budget holds, a name from `gradveil list threats`.",
    "minimum_cohort": "Least number of clients that must answer over a network; with fewer the round is repeated. Half "
    "of the cohort unless given.",
    "server_side": "What the server does with the mean update beyond adding it.",
    "features": "Fixed, public features that the model reads in place of the examples.",
    "tuned": "How the settings were found, and what that has cost; `gradveil tune` writes it.",
    "secure_sum": "Nodes add up under masks, and the server sees nothing but sums over all of them.",
}
"""By key, in the order of the plan."""
