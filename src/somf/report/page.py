"""The page of a report: fills a template with the facts about a model."""

import inspect
import os
from base64 import b64encode
from hashlib import sha256
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from somf.algorithm.config import AUTO
from somf.files.atomic import atomic_write
from somf.inference.measurement import Measurement
from somf.plotting import HISTORY_LABELS
from somf.plotting.pictures import has_spectra, patch_shape_of
from somf.report.atoms import MOST_ATOMS, atom_list
from somf.report.charts import bar_chart, line_chart, number

LONGEST_VALUE = 200
"""The largest number of characters of the value of a parameter."""

SORTING = """<div class="sorting" role="group" aria-label="Order of the atoms">
<span>Sort by</span>
<button type="button" data-key="place" aria-pressed="true">usage</button>
<button type="button" data-key="size" aria-pressed="false">size of codes</button>
<button type="button" data-key="number" aria-pressed="false">number</button>
</div>"""
"""The buttons that sort the atoms, on a page with data."""


def write_report(
    model: Any,
    path: str | os.PathLike[str],
    *,
    data: Any = None,
    command: str | None = None,
    patch_shape: tuple[int, ...] | None = None,
) -> None:
    """Write a page about a model: one HTML file that needs no network and no other file.

    The write is atomic: a reader sees the old page or the new one.

    Parameters
    ----------
    model : fitted estimator
    path : path-like
        The file to write; one that exists is replaced.
    data : array-like, sparse matrix, path or Source of shape (n_samples, n_features), optional
        Samples on which to measure the objective, the stationarity gap and the usage of atoms, in
        one pass. Without data the page leaves these out.
    command : str, optional
        The command line that repeats the fit; by default a line of Python.
    patch_shape : tuple of int, optional
        (height, width) or (height, width, channels), to draw atoms as pictures; by default
        ``model.patch_shape_``, which a fit on `ImagePatches` sets.

    Notes
    -----
    The page is smaller than six megabytes for any model. It shows at most 1024 atoms, the most used
    ones, with a million pixels in all.
    """
    check_is_fitted(model)
    shape = patch_shape_of(model, patch_shape, model.components_.shape[1])
    measurement = None if data is None else model.measure(data)
    style, script = (_file(name) for name in ("page.css", "page.js"))
    page = Template(_file("page.html")).substitute(
        style=style,
        script=script,
        style_hash=_hash(style),
        script_hash=_hash(script),
        kind=escape(type(model).__name__),
        subtitle=_subtitle(model, shape),
        facts=_facts(model, measurement),
        course=_course(model),
        sorting="" if measurement is None else SORTING,
        atoms_note=_atoms_note(model, shape, measurement),
        atoms=atom_list(model, shape, measurement),
        usage=_usage(measurement),
        certificate=_certificate(measurement),
        parameters=_parameters(model),
        command=escape(command or _python(model)),
        version=escape(_version()),
    )
    with atomic_write(path) as temporary, open(temporary, "w", encoding="utf-8") as file:
        file.write(page)


def _file(name: str) -> str:
    return files("somf.report").joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """Return the hash of a script or style, by which the security policy of the page allows it."""
    return b64encode(sha256(text.encode()).digest()).decode()


def _version() -> str:
    from somf import __version__

    return __version__


def _subtitle(model: Any, shape: tuple[int, ...] | None) -> str:
    k, p = model.components_.shape
    what = f"{number(p)} features"
    if shape is not None:
        channels = f", {number(shape[2])} channels" if len(shape) == 3 else ""
        what = f"{shape[0]} × {shape[1]} pixels{channels}: {what}"
    return f"{_plural(k, 'atom')} of {what}"


def _plural(n: int, word: str) -> str:
    return f"{number(n)} {word}{'' if n == 1 else 's'}"


def _facts(model: Any, measurement: Measurement | None) -> str:
    history = getattr(model, "history_", {})
    facts = [("samples seen", number(model.n_samples_seen_)), ("iterations", number(model.n_iter_))]
    if history.get("compute_seconds"):
        facts.append(("seconds of learning", f"{history['compute_seconds'][-1]:.3g}"))
    if history.get("objective"):
        facts.append(("validation objective", f"{history['objective'][-1]:.5g}"))
    if measurement is not None:
        facts += [
            ("objective on data", f"{measurement.objective:.5g}"),
            ("code density", f"{measurement.density:.1%}"),
            ("atoms unused", number(measurement.n_unused)),
        ]
    return "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in facts)


def _course(model: Any) -> str:
    history = getattr(model, "history_", {})
    if not history.get("objective"):
        return (
            '<p class="note">The objective was not measured while this model was learned. '
            "<code>fit(X, validation=0.1)</code> or <code>somf fit --validation 0.1</code> "
            "does so.</p>"
        )
    objective = history["objective"]
    charts = [
        (history[name], HISTORY_LABELS[name])
        for name in ("n_samples_seen", "compute_seconds")
        if len(history.get(name, ())) == len(objective)
    ]
    change = (
        f"<p>From {objective[0]:.5g} at the start to {objective[-1]:.5g}, measured "
        f"{number(len(objective))} times on the validation data.</p>"
    )
    figures = "".join(
        f"<figure>{line_chart(x, objective, label, 'validation objective')}"
        f"<figcaption>Validation objective against {label}</figcaption></figure>"
        for x, label in charts
    )
    return f'{change}<div class="charts">{figures}</div>'


def _atoms_note(model: Any, shape: tuple[int, ...] | None, measurement: Measurement | None) -> str:
    k = len(model.components_)
    notes = ["Choose one to enlarge it."]
    if has_spectra(shape):
        notes.append(
            "The first, middle and last third of the channels are blue, green and red; the curve "
            "is the mean spectrum of the atom, over that of all atoms in gray."
        )
    if measurement is None:
        notes.append("Give data to see how much each is used.")
    if k > MOST_ATOMS:
        which = "first" if measurement is None else "most used"
        notes.append(f"Shown are the {which} {number(MOST_ATOMS)} of {number(k)}.")
    return " ".join(notes)


def _usage(measurement: Measurement | None) -> str:
    if measurement is None:
        return '<p class="note">Usage is measured on data, and none was given.</p>'
    k, density = len(measurement.usage), measurement.density
    unused = measurement.n_unused
    who = (
        "No atom is"
        if unused == 0
        else "1 atom is"
        if unused == 1
        else f"{number(unused)} atoms are"
    )
    words = (
        f"<p>{density:.1%} of the codes are not zero: {density * k:.1f} of "
        f"{_plural(k, 'atom')} for a sample, on average. "
        f"{who} unused by the {number(measurement.n_samples)} samples.</p>"
    )
    if measurement.is_dense:
        heights, label, level = measurement.size[measurement.order], "Mean size of codes", None
    else:
        heights, level = 100 * measurement.usage[measurement.order], 100 * density
        label = "Samples that use an atom, in percent; dashed: code density"
    counts = measurement.n_samples_with
    last = int(np.flatnonzero(counts)[-1])
    percent = 100 * counts[: last + 1] / measurement.n_samples
    return (
        f'{words}<div class="charts"><figure>'
        f"{bar_chart(heights, 'atoms, most used first', label, first=1, level=level)}"
        f"<figcaption>{label}</figcaption></figure><figure>"
        f"{bar_chart(percent, 'atoms in use', 'samples, in percent')}"
        "<figcaption>Samples, in percent, by how many atoms they use</figcaption></figure></div>"
    )


def _certificate(measurement: Measurement | None) -> str:
    if measurement is None:
        return (
            '<p class="note">No data was given to certify the model on. '
            "<code>write_report(model, path, data=X)</code> or <code>somf report MODEL DATA</code> "
            "does so.</p>"
        )
    objective, gap = measurement.objective, measurement.stationarity_gap
    assert gap is not None
    share = f", {gap / objective:.1%} of the objective" if objective > 0 else ""
    return (
        '<dl class="facts">'
        f"<div><dt>objective</dt><dd>{objective:.6g}</dd></div>"
        f"<div><dt>stationarity gap</dt><dd>{gap:.3g}</dd></div>"
        f"<div><dt>samples</dt><dd>{number(measurement.n_samples)}</dd></div></dl>"
        f"<p>To first order, no dictionary is better on this data than this one by more than the "
        f"gap{share}. It is zero at a stationary point.</p>"
    )


def _parameters(model: Any) -> str:
    """Return the rows of the table of parameters, with the alpha found and how patches were cut."""
    changed = _changed(model)
    rows = [
        _row(name, _short(value), "" if name in changed else "default")
        for name, value in model.get_params(deep=False).items()
        if name != "verbose"  # it does not change the model
    ]
    if model.alpha == AUTO:
        rows.append(_row("alpha_", _short(model.alpha_), "found"))
    patches = dict(getattr(model, "patches_", None) or {})
    images = patches.pop("images", [])
    patches |= images[0] if len(images) == 1 else {"images": len(images)} if images else {}
    for name, value in patches.items():
        rows.append(_row(f"patches: {name}", _short(value), "data"))
    return "\n".join(rows)


def _row(name: str, value: str, remark: str) -> str:
    kind = ' class="default"' if remark == "default" else ""
    return (
        f'<tr{kind}><th scope="row">{escape(name)}</th><td>{escape(value)}</td>'
        f"<td>{escape(remark)}</td></tr>"
    )


def _short(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"array of shape {value.shape}, {value.dtype}"
    text = _literal(value)
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}…"


def _literal(value: Any) -> str:
    return repr(value.item() if isinstance(value, np.generic) else value)


def _changed(model: Any) -> dict[str, Any]:
    """Return the parameters whose values are not the defaults."""
    signature = inspect.signature(type(model).__init__).parameters
    return {
        name: value
        for name, value in model.get_params(deep=False).items()
        if name != "verbose" and not np.array_equal(value, signature[name].default)
    }


def _python(model: Any) -> str:
    """Return a line of Python that repeats the fit; the model does not store the data."""
    given = ", ".join(
        f"{name}={name if isinstance(value, np.ndarray) else _literal(value)}"
        for name, value in _changed(model).items()
    )
    more = ", validation=..." if "objective" in getattr(model, "history_", {}) else ""
    return f"somf.{type(model).__name__}({given}).fit(X{more})"
