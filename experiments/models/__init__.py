"""Kinds of model, one file each."""
