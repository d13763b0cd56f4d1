"""Accounting ahead of training: what a setting costs, and which setting meets a target."""
