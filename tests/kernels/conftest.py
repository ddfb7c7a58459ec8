"""What is not worth running."""


def pytest_collection_modifyitems(config, items):
    """Leave out kernels of the GPU on a pool of threads, which has nothing to do with them."""
    kept, left_out = [], []
    for item in items:
        parameters = item.name.partition("[")[2].rstrip("]").split("-")
        (left_out if {"pool", "cuda"} <= set(parameters) else kept).append(item)
    config.hook.pytest_deselected(items=left_out)
    items[:] = kept
