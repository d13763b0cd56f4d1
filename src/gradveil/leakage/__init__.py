"""From a plan or a run to a judged attack."""
