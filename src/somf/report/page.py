"""The page of a report: fills a template with the facts about a model."""

import os
from base64 import b64encode
from hashlib import sha256
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from somf.data import ImagePatches, as_source
from somf.files.atomic import atomic_write
from somf.inference.measurement import Measurement
from somf.plotting.pictures import has_spectra, patch_shape_of
from somf.report.atoms import MOST_ATOMS, atom_list
from somf.report.charts import bar_chart, number
from somf.report.course import course
from somf.report.examples import examples
from somf.report.maps import maps
from somf.report.origin import name_of, origin
from somf.report.parameters import parameters, python_line

MAPS_LINK = '<a href="#maps">Maps</a>'
"""The link to the maps, on a page that has them."""

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
    data_name: str | None = None,
) -> None:
    """Write a page about a model: one HTML file that needs no network and no other file.

    The write is atomic: a reader sees the old page or the new one.

    Parameters
    ----------
    model : fitted estimator
    path : path-like
        The file to write; one that exists is replaced.
    data : array-like, sparse matrix, path or Source of shape (n_samples, n_features), optional
        Samples on which to measure explained variance, objective, stationarity gap and the usage of
        atoms, in one pass, and some of which are shown beside their reconstructions. Without data
        the page leaves these out. Of `somf.ImagePatches` the page has maps: where in the image each
        atom is used, and how well it is explained.
    command : str, optional
        The command line that repeats the fit; by default a line of Python.
    patch_shape : tuple of int, optional
        (height, width) or (height, width, channels), to draw atoms as pictures; by default
        ``model.patch_shape_``, which a fit on `ImagePatches` sets.
    data_name : str, optional
        What the page calls the data; by default the names of its files.

    Notes
    -----
    The page is smaller than six megabytes for any model. It shows at most 1024 atoms, the most used
    ones, with a million pixels in all.
    """
    check_is_fitted(model)
    shape = patch_shape_of(model, patch_shape, model.components_.shape[1])
    measurement = None if data is None else model.measure(data)
    if data is not None and data_name is None:
        data_name = name_of(as_source(data).files)
    style, script = (_file(name) for name in ("page.css", "page.js"))
    page = Template(_file("page.html")).substitute(
        style=style,
        script=script,
        style_hash=_hash(style),
        script_hash=_hash(script),
        kind=escape(type(model).__name__),
        subtitle=_subtitle(model, shape),
        facts=_facts(model, measurement),
        course=course(model),
        examples=_examples(model, data, shape),
        maps=_maps(model, data, measurement),
        maps_link=MAPS_LINK if isinstance(data, ImagePatches) else "",
        origin=origin(model, data_name or "", _version()),
        sorting="" if measurement is None else SORTING,
        atoms_note=_atoms_note(model, shape, measurement),
        atoms=atom_list(model, shape, measurement),
        usage=_usage(measurement),
        certificate=_certificate(measurement),
        parameters=parameters(model),
        command=escape(command or python_line(model)),
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
    facts = []
    if measurement is not None and np.isfinite(measurement.explained_variance):
        facts.append(("explained variance", f"{measurement.explained_variance:.1%}"))
    facts += [
        ("samples seen", number(model.n_samples_seen_)),
        ("iterations", number(model.n_iter_)),
    ]
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


def _examples(model: Any, data: Any, shape: tuple[int, ...] | None) -> str:
    if data is None:
        return '<p class="note">Reconstructions are those of data, and none was given.</p>'
    return examples(model, data, shape)


def _maps(model: Any, data: Any, measurement: Measurement | None) -> str:
    """Return the section of maps; empty if the data is not an image."""
    if measurement is None or not isinstance(data, ImagePatches):
        return ""
    return (
        '<section id="maps" aria-labelledby="maps-title"><h2 id="maps-title">Maps</h2>'
        f"{maps(model, data, measurement)}</section>"
    )


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
