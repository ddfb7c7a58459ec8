"""Combinations of parameters that are not worth a test."""


def pytest_collection_modifyitems(config, items):
    """Deselect GPU kernels with several threads, which they do not use."""
    kept, left_out = [], []
    for item in items:
        parameters = item.name.partition("[")[2].rstrip("]").split("-")
        (left_out if {"shared", "cuda"} <= set(parameters) else kept).append(item)
    config.hook.pytest_deselected(items=left_out)
    items[:] = kept
