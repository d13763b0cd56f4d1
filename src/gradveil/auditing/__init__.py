"""Whether a claimed epsilon is true: lower bounds measured on the code that trains, beside the upper ones."""
