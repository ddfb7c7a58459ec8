"""A page about a model: one HTML file that needs no network."""

from somf.report.page import write_report

__all__ = ["write_report"]
