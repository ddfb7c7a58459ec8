"""The scikit-learn estimators: their parameters, fit, and use."""
