"""Small gains with best sources known by hand, and random matrices."""

import numpy as np

from experiments.draws import uniforms

#                source 0   1    2    3   -> columns are targets
GAIN = np.array([
    [9.0, 0.5, 0.1, 0.3],
    [0.4, 9.0, 0.2, 0.1],
    [0.1, 0.2, 9.0, 0.6],
    [0.2, 0.3, -0.1, 9.0],
])  # best sources: 1, 0, 1, 2


def random_matrix(count: int, label: str) -> np.ndarray:
    return uniforms(label, 0, (count, count))
