"""Draw every figure of a report once in each theme."""

import io

from analysis import style
from analysis.presentation import Figure

Files = dict[str, bytes]


def draw(figure: Figure) -> Files:
    """One figure as files.

    Args:
        figure: what to draw.

    Returns:
        The bytes of ``png`` and ``pdf`` on white, and of ``dark``, a PNG for a page in dark mode.
    """
    files: Files = {}
    for theme, kinds in (("light", {"png": "png", "pdf": "pdf"}), ("dark", {"dark": "png"})):
        with style.theme(theme):
            drawing = figure.draw()
            for name, kind in kinds.items():
                file = io.BytesIO()
                style.save(drawing, file, kind)
                files[name] = file.getvalue()
    return files
