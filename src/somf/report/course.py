"""The course of a fit in a report: its objective, from the first minibatch to the last."""

from typing import Any

from somf.plotting import HISTORY_LABELS
from somf.plotting.statistics import OBJECTIVE_LABELS
from somf.report.charts import line_chart, number

HINT = (
    "<code>fit(X, validation=0.1)</code> or <code>somf fit --validation 0.1</code> measures it on "
    "held-out samples as well."
)
"""How to get a better curve."""


def course(model: Any) -> str:
    """Return charts of the objective against samples and seconds."""
    history = getattr(model, "history_", {})
    found = [name for name in OBJECTIVE_LABELS if history.get(name)]
    if not found:
        return (
            '<p class="note">The objective was not recorded while this model was learned: '
            "<code>partial_fit</code> does not.</p>"
        )
    column, *others = found
    y, label = history[column], OBJECTIVE_LABELS[column]
    other = history[others[0]] if others else None
    charts = [
        (history[name], HISTORY_LABELS[name])
        for name in ("n_samples_seen", "compute_seconds")
        if len(history.get(name, ())) == len(y)
    ]
    behind = f"; dashed: {OBJECTIVE_LABELS[others[0]]}" if others else ""
    figures = "".join(
        f"<figure>{line_chart(x, y, x_label, label, other=other)}"
        f"<figcaption>{label.capitalize()} against {x_label}{behind}</figcaption></figure>"
        for x, x_label in charts
    )
    return f'{_words(y, column)}<div class="charts">{figures}</div>'


def _words(y: list[float], column: str) -> str:
    change = f"From {y[0]:.5g} at the start to {y[-1]:.5g}, "
    if column == "objective":
        return f"<p>{change}measured {number(len(y))} times on the validation data.</p>"
    return (
        f"<p>{change}in {number(len(y))} records. This is the mean objective of minibatches since "
        f"the record before, each before it was learned from. {HINT}</p>"
    )
