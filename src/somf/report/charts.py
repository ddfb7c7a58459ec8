"""Charts as SVG; the style sheet of the page sets the colours."""

from collections.abc import Sequence
from html import escape

import numpy as np

from somf.typing import Array

WIDTH = 400
"""The width of a chart."""

HEIGHT = 240
"""The height of a chart."""

LEFT = 58
"""The space left of the plot, for labels."""

LONGEST_LABEL = 8
"""Characters of a label that fit there; thin spaces count, too."""

RIGHT = 12
"""The space right of the plot."""

TOP = 12
"""The space above the plot."""

BOTTOM = 42
"""The space below the plot, for labels."""

MOST_POINTS = 400
"""The largest number of points of a line."""

MOST_DOTS = 60
"""The largest number of points that have a dot."""

CURVE_SIZE = (1000, 500)
"""Width and height of a small curve, in units of its SVG element."""

CURVE_BOX = f'viewBox="-8 -8 {CURVE_SIZE[0] + 16} {CURVE_SIZE[1] + 16}" preserveAspectRatio="none"'
"""The attributes of the SVG element of a small curve: it may be stretched."""

SMALLEST = 1e-290
"""Smaller ranges are drawn as if all values were the same: their ticks would underflow."""

LARGEST = 1e290
"""Larger values are not drawn: the range of a chart would overflow."""


def line_chart(
    x: Sequence[float],
    y: Sequence[float],
    x_label: str,
    y_label: str,
    *,
    other: Sequence[float] | None = None,
) -> str:
    """Return a chart of y against x, with a dot at each point unless there are many.

    Parameters
    ----------
    x, y : sequence of float
    x_label, y_label : str
    other : sequence of float, optional
        A second line, drawn behind the first one.
    """
    kept = np.unique(np.linspace(0, len(x) - 1, min(len(x), MOST_POINTS)).round().astype(int))
    lines = (x, y) if other is None else (x, y, other)
    xs, ys, *others = (np.asarray(line, dtype=float)[kept] for line in lines)
    if not all((np.abs(values) <= LARGEST).all() for values in (xs, ys, *others)):  # not for NaN
        return '<p class="note">These records are not finite, so they are not drawn.</p>'
    frame = _Frame((xs.min(), xs.max()), _padded(np.concatenate([ys, *others])))
    marks = "".join(f'<path class="other" d="{_path(frame.x(xs), frame.y(z))}"/>' for z in others)
    marks += f'<path class="line" d="{_path(frame.x(xs), frame.y(ys))}"/>'
    if len(xs) <= MOST_DOTS:
        marks += "".join(
            f'<circle class="dot" cx="{cx:.1f}" cy="{cy:.1f}" r="2.5">'
            f"<title>{number(a)}: {number(b)}</title></circle>"
            for cx, cy, a, b in zip(frame.x(xs), frame.y(ys), xs, ys, strict=True)
        )
    return frame.svg(marks, x_label, y_label)


def bar_chart(
    heights: Array, x_label: str, y_label: str, *, first: int = 0, level: float | None = None
) -> str:
    """Return a chart with one bar for each height; bars are numbered from `first` on.

    Parameters
    ----------
    heights : ndarray of shape (n,)
    x_label, y_label : str
    first : int
    level : float, optional
        The height of a horizontal line.
    """
    top = max(float(heights.max()), 1e-300)
    frame = _Frame((first - 0.5, first + len(heights) - 0.5), (0, 1.05 * top))
    edges = frame.x(np.arange(len(heights) + 1) + first - 0.5).repeat(2)
    tops = np.concatenate([[0], heights.repeat(2), [0]])
    marks = f'<path class="bars" d="{_path(edges, frame.y(tops))}Z"/>'
    if level is not None:
        y = float(frame.y(np.array(level)))
        marks += f'<path class="level" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>'
    return frame.svg(marks, x_label, y_label)


def curves(lines: Sequence[tuple[Array, str]], label: str) -> str:
    """Return small curves on common axes, without numbers.

    Parameters
    ----------
    lines : sequence of (ndarray, str)
        Each with its class in the style sheet.
    label : str
        What they show, for people who do not see them.
    """
    low = float(min(line.min() for line, _ in lines))
    high = float(max(line.max() for line, _ in lines))
    paths = "".join(curve_path(line, low, high, kind) for line, kind in lines)
    return f'<svg class="curve" {CURVE_BOX} role="img" aria-label="{escape(label)}">{paths}</svg>'


def curve_path(curve: Array, low: float, high: float, kind: str, at: Array | None = None) -> str:
    """Return a curve from `low` at the bottom to `high` at the top of `CURVE_BOX`.

    Its points are at equal distances, or `at` some places, on any scale, in any order.
    """
    span = high - low if high > low else 1
    y = np.round(CURVE_SIZE[1] * (1 - (curve - low) / span)).astype(int)
    places = np.linspace(0, 1, len(curve)) if at is None else (at - at.min()) / (np.ptp(at) or 1)
    x = np.round(CURVE_SIZE[0] * places).astype(int)
    points = "L".join(f"{a} {b}" for a, b in zip(x, y, strict=True))
    return f'<path class="{kind}" d="M{points}"/>'


def number(value: float) -> str:
    """Return a number as text for people."""
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}".replace(",", "\u202f").replace("-", "−")
    return rounded(value, 4)


def rounded(value: float, n_digits: int = 3) -> str:
    """Return a number with `n_digits` significant digits and a typographic minus."""
    return f"{value:.{n_digits}g}".replace("-", "−")


def _label(tick: float) -> str:
    """Return the text of a tick, with an exponent if it would not fit beside the plot."""
    text = number(tick)
    if len(text) <= LONGEST_LABEL:
        return text
    mantissa, _, exponent = f"{tick:.4g}".partition("e")
    return f"{mantissa}e{int(exponent)}".replace("-", "−") if exponent else text


class _Frame:
    """The rectangle and the axes of a chart."""

    def __init__(self, x_range: tuple[float, float], y_range: tuple[float, float]) -> None:
        self.x_range, self.y_range = _not_empty(x_range), _not_empty(y_range)

    def x(self, values: Array) -> Array:
        low, high = self.x_range
        return np.asarray(LEFT + (values - low) / (high - low) * (WIDTH - LEFT - RIGHT))

    def y(self, values: Array) -> Array:
        low, high = self.y_range
        return np.asarray(HEIGHT - BOTTOM - (values - low) / (high - low) * (HEIGHT - TOP - BOTTOM))

    def svg(self, marks: str, x_label: str, y_label: str) -> str:
        bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
        parts = []
        for tick in _ticks(*self.y_range):
            y = float(self.y(np.array(tick)))
            parts.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{right}"/>')
            parts.append(f'<text class="end" x="{LEFT - 6}" y="{y + 4:.1f}">{_label(tick)}</text>')
        for tick in _ticks(*self.x_range):
            x = float(self.x(np.array(tick)))
            parts.append(f'<path class="axis" d="M{x:.1f} {bottom}v4"/>')
            parts.append(f'<text class="mid" x="{x:.1f}" y="{bottom + 17}">{_label(tick)}</text>')
        middle = (LEFT + right) / 2
        return (
            f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
            f'aria-label="{escape(y_label)} against {escape(x_label)}">'
            f'{"".join(parts)}<path class="axis" d="M{LEFT} {bottom}H{right}"/>{marks}'
            f'<text class="mid label" x="{middle}" y="{HEIGHT - 6}">{escape(x_label)}</text></svg>'
        )


def _path(x: Array, y: Array) -> str:
    return "M" + "L".join(f"{a:.1f} {b:.1f}" for a, b in zip(x, y, strict=True))


def _padded(values: Array) -> tuple[float, float]:
    low, high = float(values.min()), float(values.max())
    pad = 0.06 * (high - low)
    return low - pad, high + pad


def _not_empty(limits: tuple[float, float]) -> tuple[float, float]:
    low, high = limits
    middle = abs(low) if abs(low) > SMALLEST else 1.0
    least = max(1e-12 * abs(low), SMALLEST)
    return (low, high) if high - low > least else (low - middle / 2, low + middle / 2)


def _ticks(low: float, high: float) -> list[float]:
    """Return three to six round numbers in a range."""
    rough = (high - low) / 5
    power = 10.0 ** np.floor(np.log10(rough))
    step = next(float(m * power) for m in (1, 2, 5, 10) if m * power >= rough)
    first, last = int(np.ceil(low / step - 1e-9)), int(np.floor(high / step + 1e-9))
    return [float(f"{i * step:.12g}") for i in range(first, last + 1)]
