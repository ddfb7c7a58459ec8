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


@pytest.fixture(params=[2, 4], ids=["two", "four"])
def ranks(request):
    return request.getfixturevalue("two" if request.param == 2 else "four")
