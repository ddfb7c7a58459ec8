"""Maps of brain images, with the conventions of nilearn."""

from somf.integrations.nilearn.estimator import BrainFactorization

__all__ = ["BrainFactorization"]
