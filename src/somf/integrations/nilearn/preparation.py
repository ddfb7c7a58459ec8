"""From volumes to rows of a matrix: smoothed, masked and cleaned as a masker of nilearn does it.

`NiftiMasker.transform` holds several copies of a whole run. Here a few volumes at a time are
smoothed and masked, and a few voxels at a time are cleaned: volumes do not depend on each other in
the first step, and voxels do not in the second.
"""

import logging
import math
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.base import clone

from somf.errors import DataError, MissingFileError, ParameterError, ParameterTypeError
from somf.integrations.nilearn.runs import Run, library
from somf.scratch import scratch_zeros
from somf.training.callbacks import Progress
from somf.training.progress_bar import progress_bar
from somf.typing import Array

logger = logging.getLogger("somf.integrations.nilearn")

BLOCK_BYTES = 2**24
"""Bytes of the time series that are cleaned at a time, as float64."""

CLEANING = ("detrend", "standardize", "low_pass", "high_pass")
"""Parameters of a masker that ask for cleaning, which is otherwise left out."""


def fitted_masker(mask: Any, settings: dict[str, Any], runs: Sequence[Run]) -> Any:
    """Return a masker that has a mask; if none is given, it is computed from all runs.

    Parameters
    ----------
    mask : image, path, NiftiMasker or None
    settings : dict
        Parameters of a masker; not used if `mask` is one.
    runs : sequence of Run

    Returns
    -------
    masker : NiftiMasker or MultiNiftiMasker
        Fitted, with `mask_img_`.

    Raises
    ------
    DataError
        If the mask is empty, or an image has another grid.
    """
    maskers = library("nilearn.maskers")
    if isinstance(mask, maskers.NiftiMasker):
        masker = clone(mask)
        if isinstance(masker.standardize, bool):  # nilearn is about to refuse True and False
            masker.set_params(standardize="zscore_sample" if masker.standardize else None)
        if getattr(mask, "mask_img_", None) is not None:
            masker.set_params(mask_img=mask.mask_img_)
    else:
        _check_mask(mask)
        masker = maskers.MultiNiftiMasker(mask_img=mask, reports=False, **settings)
    if masker.high_variance_confounds:
        raise ParameterError(
            "high_variance_confounds",
            "be False in a masker for runs that are streamed",
            True,
            "Compute them by nilearn.image.high_variance_confounds and pass them as confounds.",
        )
    if masker.t_r is None and (masker.low_pass is not None or masker.high_pass is not None):
        rule = "be the seconds between scans if low_pass or high_pass is given"
        raise ParameterError("t_r", rule, None)
    if masker.mask_img is None:
        masker.set_params(mask_img=_computed_mask(masker, runs))
    _check_not_empty(masker.mask_img)
    masker.fit()
    _check_not_empty(masker.mask_img_)  # it may have been resampled
    check_grids(masker, runs)
    return masker


def check_grids(masker: Any, runs: Sequence[Run]) -> None:
    """Raise DataError if an image has another grid than the mask and is not to be resampled."""
    if not is_resampled(masker):
        _check_same_grid(runs, masker.mask_img_, "the mask")


def is_resampled(masker: Any) -> bool:
    """Return whether a masker resamples images to a grid of its own."""
    return masker.target_affine is not None or masker.target_shape is not None


def voxel_count(masker: Any) -> int:
    """Return how many voxels a fitted masker selects."""
    return int(np.count_nonzero(masker.mask_img_.dataobj))


def prepare(masker: Any, run: Run, confounds: Any, rows: Array) -> None:
    """Smooth, mask and clean a run.

    Parameters
    ----------
    masker : NiftiMasker
        Fitted.
    run : Run
    confounds : path, array, data frame, list of them, or None
    rows : ndarray of shape (n_scans, n_voxels)
        What `masker.transform` returns is written here.
    """
    for scans, slab in run.slabs():
        rows[scans] = _masked(masker, slab)
    _clean(masker, confounds, rows)


def prepared_runs(
    masker: Any, runs: Sequence[Run], confounds: Sequence[Any], verbose: int = 0
) -> Array:
    """Return runs smoothed, masked and cleaned, one below the other.

    Parameters
    ----------
    masker : NiftiMasker
        Fitted.
    runs : sequence of Run
    confounds : sequence
        Those of every run.
    verbose : int
        1 shows a progress bar.

    Returns
    -------
    rows : ndarray of shape (n_scans, n_voxels)
        In memory, or in a scratch file if they are large.
    """
    n_scans = sum(run.n_scans for run in runs)
    rows = scratch_zeros((n_scans, voxel_count(masker)), np.dtype(np.float32))
    progress, begin, start = Progress(n_samples_planned=n_scans), perf_counter(), 0
    with progress_bar() if verbose else nullcontext() as show:
        for run, own in zip(runs, confounds, strict=True):
            prepare(masker, run, own, rows[start : start + run.n_scans])
            start += run.n_scans
            logger.info("%s: %d scans are masked and cleaned", run.name, run.n_scans)
            progress.n_samples_seen, progress.compute_seconds = start, perf_counter() - begin
            if show is not None:
                show(progress)
    return rows


def checked_confounds(confounds: Any, runs: Sequence[Run]) -> list[Any]:
    """Return the confounds of every run.

    Parameters
    ----------
    confounds : list, None, or the confounds of a single run
    runs : sequence of Run

    Returns
    -------
    confounds : list
        As many as runs.
    """
    if confounds is None:
        return [None] * len(runs)
    if not isinstance(confounds, list | tuple):
        if len(runs) > 1:
            rule = "be a list with the confounds of every image"
            got = type(confounds).__name__
            raise ParameterTypeError("confounds", rule, confounds, got=got)
        confounds = [confounds]
    if len(confounds) != len(runs):
        rule = f"be a list with the confounds of every image ({len(runs)})"
        raise ParameterError("confounds", rule, confounds, got=f"{len(confounds)} entries")
    for index, (own, run) in enumerate(zip(confounds, runs, strict=True)):
        for part in own if isinstance(own, list | tuple) else [own]:
            _check_confounds(part, f"confounds[{index}]", run)
    return list(confounds)


def _check_confounds(confounds: Any, name: str, run: Run) -> None:
    if isinstance(confounds, str | os.PathLike):
        if not os.path.isfile(confounds):
            raise MissingFileError(f"{name} must be a file, got {os.fspath(confounds)!r}.")
        n_rows, where = _rows_of_table(os.fspath(confounds)), f" in {os.fspath(confounds)!r}"
    elif hasattr(confounds, "__len__"):
        n_rows, where = len(confounds), ""
    else:
        return
    if n_rows != run.n_scans:
        rule = f"have a row for every scan of {run.name!r} ({run.n_scans})"
        raise ParameterError(name, rule, confounds, got=f"{n_rows} rows{where}")


def _rows_of_table(path: str) -> int:
    """Return how many rows a table of text has, without a header, as nilearn would read it."""
    with open(path, encoding="utf-8-sig", errors="replace") as file:
        lines = [line for line in file if line.strip() and not line.startswith("#")]
    first = re.split(r"[\s,;]", lines[0].strip())[0] if lines else ""
    try:
        has_header = math.isnan(float(first))
    except ValueError:
        has_header = True
    return max(0, len(lines) - has_header)


def _check_mask(mask: Any) -> None:
    if mask is None or hasattr(mask, "affine"):
        return
    if not isinstance(mask, str | os.PathLike):
        rule = "be an image, a path, a NiftiMasker or None"
        hint = "Maskers and images of surfaces are not supported."
        raise ParameterTypeError("mask", rule, mask, hint, got=type(mask).__name__)
    if not os.path.isfile(mask):
        raise MissingFileError(f"mask must be a file, got {os.fspath(mask)!r}, which is not there.")


def _check_not_empty(mask: Any) -> None:
    """Raise DataError if a mask has no voxel."""
    if not np.any(library("nilearn.image").load_img(mask).dataobj):
        raise DataError("mask must have at least one voxel, got an empty mask.", "mask")


def _computed_mask(masker: Any, runs: Sequence[Run]) -> Any:
    """Return the mask that a masker computes from the means of all runs."""
    if not is_resampled(masker):
        _check_same_grid(runs, runs[0].header, repr(runs[0].name))
    strategy = library("nilearn.maskers").MultiNiftiMasker(
        mask_strategy=masker.mask_strategy,
        mask_args=masker.mask_args,
        target_affine=masker.target_affine,
        target_shape=masker.target_shape,
        reports=False,
    )
    return strategy.fit([run.mean() for run in runs]).mask_img_


def _check_same_grid(runs: Sequence[Run], reference: Any, name: str) -> None:
    for run in runs:
        shape, affine = run.header.shape[:3], run.header.affine
        if shape == reference.shape[:3] and np.allclose(affine, reference.affine, atol=1e-4):
            continue
        difference = f"{shape} voxels, {name} has {reference.shape[:3]}"
        if shape == reference.shape[:3]:
            difference = f"the affine {affine.tolist()}, {name} has {reference.affine.tolist()}"
        raise DataError(
            f"{run.name!r} must have the grid of {name}, got {difference}. Set target_affine and "
            "target_shape to those of the mask to have images resampled.",
            "imgs",
        )


def _masked(masker: Any, slab: Any) -> Array:
    """Return volumes as rows, resampled and smoothed before if the masker says so."""
    image = library("nilearn.image")
    if is_resampled(masker):
        slab = image.resample_img(
            slab,
            target_affine=masker.mask_img_.affine,
            target_shape=masker.mask_img_.shape,
            interpolation="continuous",
            copy=False,
            force_resample=True,
            copy_header=True,
            clip=False,  # the range of a slab is not that of the run
        )
    if masker.smoothing_fwhm is not None:
        slab = image.smooth_img(slab, masker.smoothing_fwhm)
    rows: Array = library("nilearn.masking").apply_mask(slab, masker.mask_img_)
    return rows


def _clean(masker: Any, confounds: Any, rows: Array) -> None:
    """Remove trends, frequencies and confounds from rows in place, and standardise them."""
    if confounds is None and not any(getattr(masker, name) for name in CLEANING):
        return
    signal = library("nilearn.signal")
    for columns in _blocks(rows):
        rows[:, columns] = signal.clean(
            rows[:, columns].astype(np.float64),
            runs=masker.runs,
            detrend=masker.detrend,
            standardize=masker.standardize,
            standardize_confounds=masker.standardize_confounds,
            low_pass=masker.low_pass,
            high_pass=masker.high_pass,
            t_r=masker.t_r,
            confounds=confounds,
            **(masker.clean_args or {}),
        )


def _blocks(rows: Array) -> Iterator[slice]:
    step = max(1, BLOCK_BYTES // (len(rows) * np.dtype(np.float64).itemsize))
    for start in range(0, rows.shape[1], step):
        yield slice(start, start + step)
