"""A page that tells what a model is, in one file that needs nothing else."""

from somf.report.page import write_report

__all__ = ["write_report"]
