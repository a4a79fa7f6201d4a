"""How well a matrix of scores picks fine-tuning sources, with intervals and null distributions."""
