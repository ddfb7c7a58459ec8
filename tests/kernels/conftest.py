"""Combinations of parameters that are not worth a test."""


def pytest_collection_modifyitems(config, items):
    """Deselect kernels that use no threads, of the GPU and of the reference, with several."""
    kept, left_out = [], []
    for item in items:
        parameters = set(item.name.partition("[")[2].rstrip("]").split("-"))
        is_left_out = "shared" in parameters and parameters & {"cuda", "reference"}
        (left_out if is_left_out else kept).append(item)
    config.hook.pytest_deselected(items=left_out)
    items[:] = kept
