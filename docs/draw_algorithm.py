"""Draw the pictures of docs/algorithm.md: `python docs/draw_algorithm.py`."""

from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Rectangle

from somf.algorithm.masks import BernoulliMasks, BlockMasks

HERE = Path(__file__).parent
"""The folder of the docs."""

BLUE = "#2b6cb0"
"""The colour of what an iteration reads."""

ORANGE = "#dd6b20"
"""The colour of what an iteration changes."""

FAINT = "#e2e8f0"
"""The colour of what an iteration does not use."""

INK = "#1a202c"
"""The colour of text and lines."""

P = 96
"""Features in the figure of masks."""

R = 4
"""The reduction in the figure of masks."""

N_ITER = 8
"""Iterations in the figure of masks."""


def main() -> None:
    """Draw all figures."""
    plt.rcParams.update({"font.size": 10, "svg.hashsalt": "somf", "text.color": INK})
    for name, draw in (("flow", draw_flow), ("iteration", draw_iteration), ("masks", draw_masks)):
        draw().savefig(HERE / f"{name}.svg", metadata={"Date": None})


def draw_flow() -> Figure:
    """Draw the five steps of an iteration, and the arrays that they pass on."""
    figure, ax = canvas(11, 3.0)
    steps = (
        ("1 mask", "S, p/r features"),
        ("2 regression", "β ≈ Dᵀx,  G ≈ DᵀD\nfrom the rows in S"),
        ("3 codes", "α = argmin ½αᵀGα\n− αᵀβ + λΩ(α)"),
        ("4 surrogate", "B ← xαᵀ,  C ← ααᵀ\naveraged, all rows"),
        ("5 dictionary", "one pass over atoms,\nrows in S only"),
    )
    width, gap, height = 1.75, 0.32, 1.15
    for number, (title, text) in enumerate(steps):
        x = number * (width + gap)
        box = FancyBboxPatch(
            (x, 0), width, height, boxstyle="round,pad=0.02,rounding_size=0.08",
            facecolor="white", edgecolor=BLUE, linewidth=1.5,
        )  # fmt: skip
        ax.add_patch(box)
        ax.text(x + width / 2, height - 0.2, title, ha="center", va="center", weight="bold")
        ax.text(x + width / 2, 0.4, text, ha="center", va="center", fontsize=9.5)
        if number:
            arrow(ax, (x - gap + 0.02, height / 2), (x - 0.02, height / 2))
    end = 4 * (width + gap) + width
    regression, surrogate = (step * (width + gap) + width / 2 for step in (1, 3))
    ax.text(regression, 1.9, "minibatch of b samples x", ha="center", va="center", color=ORANGE)
    ax.plot([regression, surrogate, surrogate], [1.6, 1.6, 1.3], color=ORANGE, lw=1.2)
    arrow(ax, (regression, 1.77), (regression, height + 0.05), ORANGE)
    arrow(ax, (surrogate, 1.4), (surrogate, height + 0.05), ORANGE)
    ax.text(regression - 0.1, 1.4, "features in S", ha="right", va="center", color=ORANGE)
    ax.text(surrogate + 0.1, 1.4, "all features", ha="left", va="center", color=ORANGE)
    last = end - width / 2
    ax.plot([last, last, regression, regression], [-0.05, -0.45, -0.45, -0.1], color=BLUE, lw=1.2)
    arrow(ax, (regression, -0.2), (regression, -0.03))
    ax.text(
        (regression + last) / 2, -0.62, "the new D, in the next iteration", ha="center", va="center"
    )
    frame(ax, -0.15, end + 0.15, -0.8, 2.05)
    return figure


def draw_iteration() -> Figure:
    """Draw which parts of the arrays are read and written in one iteration."""
    figure, ax = canvas(11, 4.6)
    blocks = np.linspace(0, 3, 9)
    chosen = (1, 5)
    spans = [(blocks[g], blocks[g + 1] - blocks[g]) for g in chosen]

    def matrix(x: float, width: float, title: str, below: str) -> None:
        ax.add_patch(Rectangle((x, 0), width, 3, facecolor=FAINT, edgecolor=INK, linewidth=1))
        ax.text(x + width / 2, 3.25, title, ha="center", va="center", weight="bold", fontsize=11)
        ax.text(x + width / 2, -0.15, below, ha="center", va="top", fontsize=9.5)

    matrix(0, 2.6, "Xᵀ", "n samples: b are read,\nall of their features")
    for column in (0.35, 0.9, 1.5, 2.2):
        ax.add_patch(Rectangle((column, 0), 0.12, 3, facecolor="#90cdf4", edgecolor="none"))
        for y, h in spans:
            ax.add_patch(Rectangle((column, y), 0.12, h, facecolor=BLUE, edgecolor="none"))
    matrix(3.8, 1.1, "D", "k atoms: rows in S\nare read and changed")
    matrix(6.0, 1.1, "B", "all rows change,\nrows in S are read")
    ax.add_patch(Rectangle((6.0, 0), 1.1, 3, facecolor="#fbd38d", edgecolor=INK, linewidth=1))
    for x in (3.8, 6.0):
        for y, h in spans:
            ax.add_patch(Rectangle((x, y), 1.1, h, facecolor=ORANGE, edgecolor="none"))
    ax.add_patch(Rectangle((8.2, 1.9), 1.1, 1.1, facecolor="#fbd38d", edgecolor=INK, linewidth=1))
    ax.text(8.75, 3.25, "C", ha="center", va="center", weight="bold", fontsize=11)
    ax.text(8.75, 1.75, "k × k: small", ha="center", va="top", fontsize=9.5)
    for y, h in spans:
        ax.text(-0.15, y + h / 2, "S", ha="right", va="center", weight="bold", color=BLUE)
    ax.annotate("", (-0.55, 0), (-0.55, 3), arrowprops={"arrowstyle": "<->", "color": "0.5"})
    ax.text(-0.7, 1.5, "p features, in blocks", rotation=90, ha="center", va="center", color="0.4")
    key = ((BLUE, "read, for codes"), ("#90cdf4", "read, for B"), (ORANGE, "changed, rows in S"),
           ("#fbd38d", "changed"), (FAINT, "not touched"))  # fmt: skip
    for number, (color, text) in enumerate(key):
        y = 1.05 - 0.26 * number
        ax.add_patch(
            Rectangle((7.9, y), 0.2, 0.16, facecolor=color, edgecolor="0.6", linewidth=0.5)
        )
        ax.text(8.2, y + 0.08, text, va="center", fontsize=9.5)
    frame(ax, -1.0, 10.0, -0.75, 3.5)
    return figure


def draw_masks() -> Figure:
    """Draw the masks of some iterations: blocks of shuffled features, and Bernoulli masks."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 3.3), layout="constrained")
    block_masks, bernoulli = BlockMasks(P, R, seed=0), BernoulliMasks(P, R, seed=0)
    for ax, masks, title in (
        (left, block_masks, f'masks="blocks": pairs of {2 * R} blocks, features shuffled once'),
        (right, bernoulli, 'masks="bernoulli": every feature with probability 1/r'),
    ):
        picture = np.zeros((N_ITER, P))
        for iteration in range(N_ITER):
            rows = masks.draw(iteration, R).rows
            for part in rows if isinstance(rows, tuple) else (rows,):
                picture[iteration, part] = 1
        ax.imshow(picture, aspect="auto", cmap=colors(), extent=(0, P, N_ITER, 0))
        for row in range(1, N_ITER):
            is_cycle = row % R == 0 and masks is block_masks
            ax.axhline(row, color=INK if is_cycle else "white", linewidth=1.6 if is_cycle else 2)
        ax.set_title(title, fontsize=10.5)
        ax.set_xlabel("features, in the order of D and B")
        ax.set_yticks(np.arange(N_ITER) + 0.5, range(1, N_ITER + 1))
        ax.set_xticks([])
        ax.tick_params(length=0)
        ax.spines[:].set_visible(False)
    for edge in block_masks.blocks[1:]:
        left.axvline(edge.start, color="white", linewidth=1)
    left.set_ylabel("iteration")
    for cycle in range(2):
        left.text(P + 1, (cycle + 0.5) * R, f"cycle {cycle + 1}", rotation=90, va="center")
    return figure


def colors() -> object:
    """Return the colours of a feature outside and inside of a mask."""
    from matplotlib.colors import ListedColormap

    return ListedColormap([FAINT, BLUE])


def canvas(width: float, height: float) -> tuple[Figure, Axes]:
    """Return a figure with axes of equal units and nothing on them."""
    figure = plt.figure(figsize=(width, height), layout="constrained")
    ax = figure.add_subplot()
    ax.set_axis_off()
    ax.set_aspect("equal")
    return figure, ax


def frame(ax: Axes, left: float, right: float, bottom: float, top: float) -> None:
    """Set the limits of the axes."""
    ax.set_xlim(left, right)
    ax.set_ylim(bottom, top)


def arrow(
    ax: Axes, start: tuple[float, float], end: tuple[float, float], color: str = BLUE
) -> None:
    """Draw an arrow."""
    ax.add_patch(
        FancyArrowPatch(
            start, end, arrowstyle="-|>", mutation_scale=11, color=color, shrinkA=0, shrinkB=0
        )
    )


if __name__ == "__main__":
    main()
