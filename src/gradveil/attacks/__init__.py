"""Attacks: what can be made of a gradient by someone who read it. They see a Leak and nothing else of the package."""
