"""Tasks of labelled images, and where their images come from."""
