"""Parts of the validation of the sketch against the exact alignment, on tasks of images."""
