"""Using what was trained: predictions for new examples, scores, files for other programs."""
