"""What the parameters and attributes of the estimators mean: the one place that says so.

The docstring of a class says what it solves, and describes the parameters that mean something else
there. `describe_parameters` adds all others of its signature, with their defaults, and so the
reference and the options of the command have them too.
"""

import difflib
import functools
import inspect
import re
from typing import Any, TypeVar

from somf.errors import UnknownParameterError

PARAMETERS = """\
n_components : int
    Number of atoms, k.
alpha : float or "auto"
    Weight λ of the penalty on codes. It is on the scale of ‖x‖: with
    samples of unit norm and ``l1_ratio=1``, values from 1 on give empty codes. With ``"auto"``
    it is found before the fit, on a part of the data, so that codes have the density
    `code_density`.
alpha_per : {"sample", "entry"}
    Whether λ counts once for a sample, or for every known entry of it (see `missing`; entries
    count with their `weights`): codes of which little is known are then not smaller than others.
code_density : float
    The fraction, in (0, 1), of the entries of codes that shall not be zero, where `alpha` is
    ``"auto"``. The density of a fit is usually within 10 % of it, or within 20 % if codes
    fit noise.
atom_density : float
    Where it is given and `alpha` is ``"auto"``, λ is found so that this fraction, in (0, 1), of the
    entries of atoms is not zero. Needs ``atom_l1_ratio > 0``.
transform_alpha : float or "auto"
    λ of the codes that `transform` returns. ``"auto"`` is that of the fit, `alpha_`, or, in sparse
    PCA (``l1_ratio=0`` and ``atom_l1_ratio > 0``, all entries known), a hundredth of it.
l1_ratio : float
    ν in [0, 1]: 1 is an ℓ1 penalty (sparse codes), 0 a squared ℓ2 penalty (dense codes).
atom_l1_ratio : float
    μ in [0, 1]: 0 is the ℓ2 ball (dense atoms), 1 the ℓ1 ball (sparse atoms).
atom_alpha : float
    ρ ≥ 0: weight of a squared ℓ2 penalty on atoms, ρ‖d_f‖² for every known entry of feature f,
    where d_f has the entries of all atoms at f. With ridge codes (``l1_ratio=0``) it lets
    atoms that are not needed vanish, as alternating least squares does.
reduction : float or "auto"
    r ≥ 1: an iteration uses p / r of the features (at least one). 1 is the online algorithm
    of Mairal et al. (2010), without subsampling. ``"auto"`` is 1 where a minibatch has more
    samples than there are atoms, as is usual with the default `batch_size`: subsampling does
    not pay there. Otherwise it begins with 4 if codes from a quarter of the features are
    good enough, until they no longer are: the tolerated error shrinks with the number of
    samples seen. Then (and without a penalty) codes are exact; with many features and atoms, a
    quarter of the features is updated until that no longer helps.
code_estimator : {"auto", "averaged", "masked", "exact"}
    How codes are computed: from all masks under which the sample was seen so far (the paper),
    from the current mask alone (Mensch et al., ICML 2016), or from all features, so that only
    the dictionary update is partial. ``"auto"`` is ``"averaged"`` where `reduction` is a
    number, and ``"masked"`` where it is ``"auto"`` and subsamples.
masks : {"blocks", "bernoulli"}
    Parts of the features: blocks that are drawn once and visited in random order, or a coin
    for every feature at every iteration, as in the paper, which is slower and, with averaged
    codes, needs k² numbers per sample.
surrogate : {"online", "incremental", "auto"}
    How past codes are averaged: with decaying weights (for streams, and for the first epochs
    on large data), or with exactly one contribution per sample (for many epochs on data whose
    codes fit into memory; converges to a much smaller stationarity gap). ``"auto"`` is
    ``"incremental"`` in `fit` where X has no more samples than features, so that codes take no
    more memory than atoms, and codes are not averaged; else ``"online"``.
learning_rate : float or "auto"
    v in (3/4, 1): after t samples a new one has the weight t^−v. With ``"auto"``, the number of
    samples that the average remembers follows from the data: codes are forgotten as fast as atoms
    drift, and noise is averaged out as far as that allows. Averages of β and G then have
    v = 0.78. If the codes of all samples have at most 2²⁴ entries, and there are at most 524,288
    samples, `fit` goes over to accelerated passes over all samples after three epochs, or fewer
    long ones. From the end of the second epoch (or of the first 2¹⁷ samples) on it remembers few
    samples, which moves atoms fast, and over the last third of the way to the passes it averages
    this noise out. A callback that ends the fit in between leaves noisy atoms. There is no such
    noise where `n_epochs` leaves time for fewer than five passes.
batch_size : int or "auto"
    Samples per iteration. ``"auto"`` is twice the number of atoms (or of features, if these are
    fewer), from 16 to 256 (from 256 to 1,024 on a GPU), with at least ten iterations in an
    epoch. For sparse samples it is up to twice as large as these limits, so that a minibatch
    stores about as many entries as one of dense samples (unless atoms are few and small). Where
    only a part of the entries is known (see `missing`), it has about twice as many known ones.
n_epochs : int
    Passes of `fit` over the data, at most.
tol : float
    A fit ends when the objective of minibatches, before they are learned from, improves by less
    than this fraction from one epoch to the next (or, with more than 524,288 samples, over
    131,072 of them), `patience` times in a row (or, in passes over all samples, on average over
    five of them). With 0, it always does `n_epochs` epochs.
patience : int
    See `tol`.
init : {"samples", "random", "nndsvd", "auto"} or array of shape (n_components, n_features)
    Initial atoms: random samples, random directions, non-negative parts of singular vectors
    (of a sample of the data, where `positive_atoms`), or atoms that you have; always moved into
    the ball. ``"auto"`` is ``"samples"``; for NMF without a penalty, short fits to 500 samples
    from each of the three are compared, and the fit goes on from the atoms of the best of them,
    after 500 other samples.
missing : {"error", "nan", "absent"}
    Which entries of X are unknown, and count nowhere: none, so that NaN is an error; those that
    are NaN, in dense data; those that a sparse matrix has not stored, which otherwise are
    zeros. A fit then needs ``n_features * n_components**2`` numbers (and, with averaged codes,
    ``n_samples * n_components**2``).
center : {"none", "features", "both"}
    With ``"features"``, the mean of every feature is subtracted from samples as they are read, as
    PCA does, and added by `inverse_transform`; it is found in one pass over the data before the fit
    (by `partial_fit`, on the samples of its first call). Only for dense X whose entries are all
    known. With ``"both"``, the mean of all known entries and the offsets of samples and of features
    are subtracted before codes are computed, and added by `impute`. The offsets of features
    are found in three passes over the data before the fit (by `partial_fit`, on the samples of
    its first call), those of a sample from its own entries; both are shrunk like averages with
    ten more entries of offset zero. Not for non-negative problems.
normalize : bool
    Whether samples are scaled to unit norm before codes are computed, so that one λ suits samples
    of any scale. `transform` multiplies codes by the norms, so that `inverse_transform` returns
    samples on the scale of X; `objective`, `measure` and all that `fit` does is about samples of
    unit norm. Not with unknown or weighted entries, or offsets.
positive_code : bool
    Whether codes must be non-negative.
positive_atoms : bool
    Whether atoms must be non-negative.
code_tol : float
    Relative duality gap at which the codes of an iteration are good enough.
record_every : int
    Samples between two entries of `history_`; by default an epoch, and in the first one, without
    validation data, also after 1/64, 1/32, … 1/2 of its samples.
device : {"cpu", "cuda"}
    Where to compute: on the CPU, or on an NVIDIA GPU (needs ``somf[cuda]``). A fitted model
    can be used on either device.
n_threads : int
    Threads that compute; by default the cores that the process may use.
dtype : {"float32", "float64"}
    Type of all computations; by default that of the data (float64 for integers).
callbacks : sequence of callables
    Each is called with a `somf.callbacks.Progress` after every iteration of `fit`; the fit
    ends if one returns something true.
checkpoint : path-like or Checkpoint
    A checkpoint file. If a fit is interrupted, the same call resumes from it, with
    bit-identical results. Written every minute; `somf.Checkpoint` changes the interval.
    Ignored by `partial_fit`.
verbose : int
    1 shows a progress bar. Records are always logged to the logger ``somf``.
random_state : int or RandomState
    The same seed gives the same result (to rounding, on any number of threads).
"""
"""All parameters of all estimators, in the form of numpydoc, without defaults."""

ATTRIBUTES = """\
components_ : ndarray of shape (n_components, n_features)
    The atoms.
alpha_ : float
    λ of the fit: `alpha`, or what was found for it.
offsets_ : ndarray of shape (n_features,)
    With ``center="features"`` the mean of every feature; with ``center="both"`` the mean of all
    known entries plus the offset of the feature.
patches_ : dict
    Where X is an `ImagePatches`: how its patches were cut out and normalised, as in
    `ImagePatches.geometry`.
patch_shape_ : tuple of int
    Likewise: the shape, (height, width) or (height, width, channels), of an atom.
n_features_in_ : int
    Number of features, p.
feature_names_in_ : ndarray of str
    The names of the features, where X has some: a data frame, an array of xarray, or a file with
    names.
channels_ : somf.data.Channels
    What the features of spectra are, or the channels of patches, where it is known: wavelengths
    with their unit, or names.
n_iter_ : int
    Number of iterations.
n_samples_seen_ : int
    Number of samples seen, repeated visits counted.
history_ : dict of lists
    ``n_samples_seen``, ``n_iter``, ``compute_seconds``, ``wall_seconds``, ``training_objective``
    (the mean objective of minibatches since the record before, each before the fit learned from
    it, and from the features in use) and, with validation data, ``objective``, at the start of
    `fit`, every `record_every` samples and at the end.
reconstruction_err_ : float
    After `fit` to X in memory, where X and codes have at most 2²⁰ entries, or 2²⁴ after eight
    epochs: the Frobenius norm of ``X - codes @ components_``, with the codes of `transform`, of all
    samples of X as the model sees them (less their means with `center`, of unit norm with
    `normalize`, known entries only).
    Other data would need a further pass that may be long: ``measure(X).reconstruction_err``.
explained_variance_ratio_ : ndarray of shape (n_components,)
    Likewise, where all entries are known and have no weights: the share of every atom in the
    variance of X. The sum is that of all atoms. For principal components it is what PCA has;
    other atoms overlap, and one that makes up for others has a negative share
    (see ``measure(X).explained_variance_ratio``).
provenance_ : dict of str
    After `fit`: its date, the names of the files, the machine and the versions of libraries.
has_state : bool
    Whether the model has the state from which `partial_fit` continues: False after `somf.load`
    of a model that was saved without it.
"""
"""All attributes of a fitted estimator, likewise."""


Class = TypeVar("Class", bound=type)
"""The class of an estimator."""


def describe_parameters(estimator: Class) -> Class:
    """Complete the docstring of an estimator: all its parameters, and its attributes.

    Parameters
    ----------
    estimator : type
        Its docstring may have a section of parameters, which override `PARAMETERS`, and ends with
        examples.

    Returns
    -------
    estimator : type
        The same class.
    """
    _name_in_errors(estimator)
    if estimator.__doc__ is None:  # python -OO removes docstrings
        return estimator
    doc, _, examples = inspect.cleandoc(estimator.__doc__).partition("\n\nExamples\n--------\n")
    summary, _, own = doc.partition("\n\nParameters\n----------\n")
    texts = _entries(PARAMETERS) | _entries(own)
    described = [
        _described(parameter, *texts[name])
        for name, parameter in inspect.signature(estimator).parameters.items()
    ]
    sections = {
        "Parameters": "\n".join(described),
        "Attributes": ATTRIBUTES.strip(),
        "Examples": examples,
    }
    parts = [f"{title}\n{'-' * len(title)}\n{text}" for title, text in sections.items()]
    estimator.__doc__ = "\n\n".join([summary, *parts]) + "\n"
    return estimator


def _name_in_errors(estimator: type) -> None:
    """Let an error about a parameter that is unknown name the class, and the nearest parameter."""
    initialise: Any = estimator.__init__  # type: ignore[misc] # that of this class
    known = list(inspect.signature(initialise).parameters)[1:]

    @functools.wraps(initialise)
    def initialise_with_known(self: Any, *args: Any, **params: Any) -> None:
        for name in params.keys() - set(known):
            near = difflib.get_close_matches(name, known, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise UnknownParameterError(type(self).__name__, name, hint)
        initialise(self, *args, **params)

    setattr(estimator, "__init__", initialise_with_known)  # noqa: B010 (mypy forbids assignment)


def _entries(section: str) -> dict[str, tuple[str, str]]:
    """Return the type and the indented description of every name in a section of numpydoc."""
    found = {}
    for entry in re.split(r"\n(?=\S)", section.strip()) if section.strip() else []:
        head, _, text = entry.partition("\n")
        name, _, kind = head.partition(" : ")
        found[name] = kind, text
    return found


def _described(parameter: inspect.Parameter, kind: str, text: str) -> str:
    """Return the entry of a parameter, with the default that the signature has."""
    default: Any = parameter.default
    shown = f'"{default}"' if isinstance(default, str) else repr(default)
    more = "optional" if default is None else f"default={shown}"
    return f"{parameter.name} : {kind}, {more}\n{text}"
