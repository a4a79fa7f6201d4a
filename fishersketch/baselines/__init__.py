"""Baselines that an alignment is compared with, one method per file."""
