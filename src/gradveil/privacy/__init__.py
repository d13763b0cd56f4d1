"""Sanitizing a lot of gradients at the surface where a method acts: prune, clip, sensitivity, noise."""
