"""Adapters with which `gradveil audit --mechanism` measures other libraries."""
