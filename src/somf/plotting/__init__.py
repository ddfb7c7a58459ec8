"""Plots with matplotlib: atoms, their spectra and usage, the history of a fit, reconstructions."""

from somf.plotting.atoms import plot_atoms, plot_spectra
from somf.plotting.maps import plot_code_maps, plot_residual_map
from somf.plotting.matches import plot_matches
from somf.plotting.reconstructions import plot_reconstructions
from somf.plotting.statistics import HISTORY_LABELS, plot_history, plot_usage

__all__ = [
    "HISTORY_LABELS",
    "plot_atoms",
    "plot_code_maps",
    "plot_history",
    "plot_matches",
    "plot_reconstructions",
    "plot_residual_map",
    "plot_spectra",
    "plot_usage",
]
