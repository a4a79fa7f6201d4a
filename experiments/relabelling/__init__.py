"""Tasks that share inputs and representations and differ in their labels alone."""
