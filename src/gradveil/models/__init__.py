"""Models as pairs of pure functions, and gradients of one example at a time."""
