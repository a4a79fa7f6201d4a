"""Parts of the continual-learning experiment."""
