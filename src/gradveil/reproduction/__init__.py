"""The paper's tables and figures: cells as data, works that fill them, and a verdict on each."""
