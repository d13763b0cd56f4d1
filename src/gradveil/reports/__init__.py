"""What is shown of a run: pictures made from its results, returned as bytes."""
