"""Kinds of domain source, one file each."""
