"""What the cost experiment measures, one quantity a file."""
