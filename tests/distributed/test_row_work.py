"""Work on rows, piece by piece."""

import numpy as np
import pytest

from somf.distributed.row_work import PIECE_ROWS, RowWork


@pytest.mark.parametrize(
    "first",
    [(), (slice(0, 3),), (slice(2, PIECE_ROWS + 5), slice(PIECE_ROWS + 9, PIECE_ROWS + 10))],
)
def test_every_row_is_worked_on_once_and_the_first_ones_before_the_others(first):
    n_rows = 3 * PIECE_ROWS + 7
    counts, is_first = np.zeros(n_rows, dtype=int), np.zeros(n_rows, dtype=bool)
    for s in first:
        is_first[s] = True

    def work(rows):
        for s in rows:
            counts[s] += 1

    pieces = RowWork(work, first, n_rows)
    pieces.finish_first()
    np.testing.assert_array_equal(counts, is_first)
    assert pieces.advance()
    pieces.finish()
    np.testing.assert_array_equal(counts, 1)
    assert not pieces.advance()
