"""Ranks that many tests share."""

import pytest

from tests.helpers.ranks import team


@pytest.fixture(scope="session")
def two(tmp_path_factory):
    pytest.importorskip("torch", reason="torch comes with the extra 'distributed'")
    with team(2, tmp_path_factory.mktemp("two")) as ranks:
        yield ranks


@pytest.fixture(scope="session")
def four(tmp_path_factory):
    pytest.importorskip("torch", reason="torch comes with the extra 'distributed'")
    with team(4, tmp_path_factory.mktemp("four")) as ranks:
        yield ranks


@pytest.fixture(scope="session")
def two_by_gloo(tmp_path_factory):
    """Two ranks that send messages as between two machines."""
    pytest.importorskip("torch", reason="torch comes with the extra 'distributed'")
    with team(2, tmp_path_factory.mktemp("gloo"), {"SOMF_SHARED_MEMORY": "0"}) as ranks:
        yield ranks


@pytest.fixture(params=["two", "four"])
def ranks(request):
    return request.getfixturevalue(request.param)


@pytest.fixture(params=["two", "four", "two_by_gloo"])
def all_ranks(request):
    return request.getfixturevalue(request.param)
