"""Fisher alignment of output heads, exactly and by a one-pass sketch."""
