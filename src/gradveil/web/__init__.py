"""The live page: runs as they go, started and stopped from a browser, and a lab for leaks."""
