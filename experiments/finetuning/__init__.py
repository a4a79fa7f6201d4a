"""Ways to fine-tune a causal language model, one file each, and the rows of losses that they give."""
