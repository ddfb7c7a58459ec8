"""Fixtures of the tests of fits."""

import signal

import pytest


@pytest.fixture(autouse=True)
def _ctrl_c_is_not_ignored():
    """Undo what shells do to jobs in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
