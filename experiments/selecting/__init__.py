"""Ranking a user's own texts: find them, read no more than is needed, sketch, and say what it means."""
