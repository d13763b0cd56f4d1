"""A plan on many machines: a server that sends orders, and nodes that train and reply."""
