"""How long to fit, decided by the objective of minibatches.

Every minibatch has an objective before it is learned from. In the first epoch this is an unbiased
estimate of the objective on new samples (but for those that initial atoms were made or tried
with), and later epochs see the same samples again, so that their means can be compared. A
fit is divided into intervals. If the codes of all samples fit into memory, passes over all samples
follow three epochs (see `somf.algorithm.passes`), and the fit ends when these hardly change the
objective. Otherwise, when the mean over an interval is hardly below that of the interval before, a
fit looks at more features; if it looks at all of them already, it ends.
"""

import logging
import math
from typing import Any

from somf.algorithm.passes import end_pass, momentum
from somf.algorithm.phases import Phase
from somf.algorithm.solver import Solver
from somf.distributed import ALONE, Communicator
from somf.training.config import TrainingConfig

logger = logging.getLogger("somf")

LONGEST_EPOCH = 2**19
"""Samples up to which an interval is an epoch, and there are passes: longer fits may end within an
epoch."""

INTERVAL = 2**17
"""Samples of an interval of longer epochs, enough to see a change of a few tenths of a percent."""

MOST_CODES = 2**24
"""Entries of the codes of all samples, up to which there are passes (64 MB in float32)."""

ONLINE_EPOCHS = 3
"""Epochs after which passes over all samples begin. A part of the last one is noisy."""

ONLINE_SAMPLES = 2**18
"""Passes begin at the end of the first epoch by which so many samples have been seen, if that is
before the third, and noise after half as many, if that is before the end of the second."""

NOISY_SHARE = 2 / 3
"""Share of the samples from the beginning of noise to the passes; over the others it is averaged
out."""

LEAST_COMPARED = 5
"""Passes over which the objective must improve, at least: momentum takes a few to build up."""

PLATEAU = 1e-3
"""Relative improvement over an interval below which a fit looks at more features."""


class Convergence:
    """Watches the objective of a fit.

    Parameters
    ----------
    config : TrainingConfig
    n_samples : int
        Samples of an epoch.
    mean_weight : float
        How much a sample counts, on average over those of an epoch.

    Attributes
    ----------
    is_over : bool
        Whether the objective has stopped improving.
    passes_from : float
        Samples seen after which passes over all samples begin; infinite if there are none.
    noisy_from, quiet_from : float
        Samples seen after which noise is wanted (see `somf.algorithm.forgetting`), and after which
        it is averaged out; infinite without time for passes.
    """

    def __init__(self, config: TrainingConfig, n_samples: int, mean_weight: float = 1.0) -> None:
        self.mean_weight = mean_weight
        self.tol, self.patience, self.batch_size = config.tol, config.patience, config.batch_size
        self.interval = n_samples if n_samples <= LONGEST_EPOCH else INTERVAL
        self.first, self.total = 0, 0.0  # of this interval: samples seen before, sum of objectives
        self.unrecorded = 0.0  # the sum of objectives since the last record
        self.before: float | None = None  # the mean of the interval before
        self.n_stalled = 0
        self.recent: list[float] = []  # the objectives of the last passes
        is_small = n_samples <= LONGEST_EPOCH and n_samples * config.n_components <= MOST_CODES
        self.may_gather = config.may_gather and is_small
        n_epochs = min(ONLINE_EPOCHS, math.ceil(ONLINE_SAMPLES / n_samples))
        self.passes_from = n_epochs * n_samples if self.may_gather else math.inf
        has_time = config.n_epochs >= n_epochs + LEAST_COMPARED
        self.noisy_from = self.quiet_from = math.inf
        if self.may_gather and has_time:
            self.noisy_from = min((ONLINE_EPOCHS - 1) * n_samples, ONLINE_SAMPLES // 2)
            self.quiet_from = self.noisy_from + NOISY_SHARE * (self.passes_from - self.noisy_from)

    @property
    def noisy(self) -> range:
        """Numbers of samples seen at which atoms are noisy, or settle: until the passes begin."""
        if math.isinf(self.noisy_from):
            return range(0)
        return range(int(self.noisy_from) + 1, int(self.passes_from))

    @property
    def is_over(self) -> bool:
        """Whether the objective has stopped improving."""
        return self.tol > 0 and self.n_stalled >= self.patience

    def fields(self, communicator: Communicator = ALONE) -> dict[str, Any]:
        """Return what `restore` needs, of all ranks; JSON can store it."""
        totals = [float(total) for total in communicator.tell(self.total)]
        names = ("batch_size", "tol", "first", "before", "n_stalled", "recent")
        return {name: getattr(self, name) for name in names} | {
            "total": sum(totals),
            "totals": totals,
            "unrecorded": [float(part) for part in communicator.tell(self.unrecorded)],
        }

    def restore(
        self, fields: dict[str, Any], n_samples_seen: int, communicator: Communicator = ALONE
    ) -> None:
        """Take over what `fields` has returned, or raise ValueError."""
        before = None if fields["before"] is None else float(fields["before"])
        first, n_stalled = int(fields["first"]), int(fields["n_stalled"])
        total, totals = float(fields["total"]), [float(part) for part in fields.get("totals", ())]
        unrecorded = [float(part) for part in fields.get("unrecorded", ())]  # not in older files
        recent = [float(mean) for mean in fields.get("recent", ())]  # likewise
        numbers = (total, *totals, *unrecorded, *recent, 0.0 if before is None else before)
        is_finite = all(map(math.isfinite, numbers))
        if int(fields["batch_size"]) < 1:
            raise ValueError("its minibatches are empty")
        if not (is_finite and 0 <= first <= n_samples_seen and n_stalled >= 0):
            raise ValueError("its record of convergence is impossible")
        if len(totals) != communicator.size:  # the sum is what counts
            totals = [total] + [0.0] * (communicator.size - 1)
        if len(unrecorded) != communicator.size:
            unrecorded = [sum(unrecorded)] + [0.0] * (communicator.size - 1)
        self.unrecorded = unrecorded[communicator.rank]
        self.first, self.total, self.before = first, totals[communicator.rank], before
        self.n_stalled, self.recent = n_stalled if fields["tol"] == self.tol else 0, recent

    def add(self, solver: Solver) -> None:
        """Add the objectives of the minibatches since the last call."""
        for objective in solver.take_objectives():
            self.total += objective
            self.unrecorded += objective

    def mean_since(self, n_samples_seen: int, solver: Solver) -> float:
        """Return the mean objective of the minibatches since the last record.

        Parameters
        ----------
        n_samples_seen : int
            The samples seen at that record.
        solver : Solver

        Returns
        -------
        mean : float
            Of the samples of all ranks; NaN if there was no minibatch.
        """
        self.add(solver)
        (total,) = solver.communicator.total(self.unrecorded)
        n_since = solver.state.n_samples_seen - n_samples_seen
        return total / (n_since * self.mean_weight) if n_since else math.nan

    def is_due(self, n_samples_seen: int) -> bool:
        """Return whether an interval is over."""
        return n_samples_seen - self.first >= self.interval

    def conclude(self, solver: Solver) -> None:
        """End an interval: compare it with the one before, and change what must be changed."""
        self.add(solver)
        n_samples_seen = solver.state.n_samples_seen
        (total,) = solver.communicator.total(self.total)
        n_counted = (n_samples_seen - self.first) * self.mean_weight
        mean, before = total / n_counted, self.before
        self.first, self.total, self.before = n_samples_seen, 0.0, mean
        improvement = (before - mean) / abs(before) if before else 0.0
        is_plateau = before is not None and improvement < PLATEAU
        is_pass = solver.state.phase == Phase.PASS
        if is_pass:
            self._conclude_pass(solver, mean)
        elif n_samples_seen >= self.passes_from:
            self._begin_passes(solver)
        elif is_plateau and solver.climb(self.batch_size):
            solver.state.is_settled = 1
            self.before = None  # another part of the features, which cannot be compared
        elif before is not None and math.isinf(self.passes_from):  # only passes end other fits
            self.n_stalled = self.n_stalled + 1 if improvement < self.tol else 0
        if self.is_over:
            logger.info(
                "stopping after %d samples: the objective improved by less than tol=%g %s the last "
                "%d intervals of %d samples",
                n_samples_seen,
                self.tol,
                "per pass, on average over" if is_pass else "in each of",
                self.n_stalled,
                self.interval,
            )

    def _begin_passes(self, solver: Solver) -> None:
        """Look at everything from now on, and let the next minibatch begin a pass."""
        while solver.climb(self.batch_size):
            pass
        solver.state.forget_moves()
        solver.state.phase, self.n_stalled = Phase.BETWEEN, 0
        logger.info("from now on atoms change once in an epoch, by the codes of all samples")

    def _conclude_pass(self, solver: Solver, mean: float) -> None:
        """Compare the objective of a pass, which has no noise, with those of passes before."""
        lowest = self.recent[-1] if self.recent else math.inf
        # Without momentum the objective can rise by rounding alone.
        has_lowered = mean <= lowest or momentum(solver.state.n_lowered) == 0
        end_pass(solver, has_lowered)
        if not has_lowered:
            return
        n_compared = max(self.patience, LEAST_COMPARED)
        self.recent = [*self.recent, mean][-n_compared - 1 :]
        has_all = len(self.recent) > n_compared
        change = self.recent[0] - mean
        self.n_stalled = 0
        if has_all and change <= n_compared * self.tol * abs(self.recent[0]):
            self.n_stalled = n_compared
