"""Forgetting of orders of tasks against the interference that was predicted for them."""

from matplotlib.figure import Figure

from analysis import style
from analysis.load import RunFolder


def draw(run: RunFolder, caption: str) -> Figure:
    """A point a random order, and lines at the order that the joint alignment chose and at its opposite.

    Args:
        run: a finished run over orders of tasks.
        caption: what it was made from.

    Returns:
        The figure.
    """
    arrays = run.arrays("continual")
    change = (arrays["final"] - arrays["after"]).mean(axis=-1)  # (O, T)
    values = [change[place, arrays["orders"][place][:-1]].mean() for place in arrays["drawn"]]
    figure = style.new_figure(2.8, caption, width=4.6)
    axes = figure.subplots()
    axes.plot(arrays["predicted_joint"], values, "o", color=style.COLOURS[0], label="random order")
    for name, colour, dashes in (("joint", style.BEST, "--"), ("joint_most", style.PICK, ":")):
        words = "least" if name == "joint" else "most"
        axes.axhline(
            run.metric("forgetting")[name],
            color=colour,
            linestyle=dashes,
            label=f"order of {words} predicted interference",
        )
    axes.set_xlabel("predicted interference of the order (joint alignment)")
    axes.set_ylabel("forgetting in nats per token")
    figure.legend(loc="outside upper center", ncols=2)
    style.grid(axes)
    return figure
