"""What the ranks of a test do; functions that other processes import by name."""

import os
import signal
import time

import numpy as np

import somf
from somf.algorithm.passes import begin_pass, is_pass_due
from somf.algorithm.solver import Solver
from somf.data import Loader, Source, gather, loader_for
from somf.data import loader as data_loader
from somf.distributed import row_work
from somf.distributed.connection import communicator_for
from somf.distributed.dealing import edges_of
from somf.estimators.opening import for_source
from somf.training.convergence import Convergence
from somf.training.minibatches import epochs
from somf.training.samples import Rows
from somf.training.start import hold_out, start
from tests.helpers.problems import planted, random_csr

PROBLEMS = {
    "DictionaryLearning": {"alpha": 0.1},
    "SparsePCA": {"alpha": 0.1},
    "NMF": {"alpha": 0.05, "init": "samples"},
    "MatrixFactorization": {"alpha": 0.1, "l1_ratio": 0.5, "atom_l1_ratio": 0.5},
}
"""One of each kind of penalty and ball."""


def samples(kind="DictionaryLearning", n=131, p=50):
    """Return data that cannot be divided evenly, neither by 2 ranks nor by 4."""
    X = planted(n, p, 8)[0]
    return np.abs(X) if kind == "NMF" else X


def unknown(kind, missing_share=0.3):
    """Return the same samples, of which some entries are unknown."""
    X = samples(kind)
    X[np.random.default_rng(1).random(X.shape) < missing_share] = np.nan
    return X


DATA = {
    "dense": samples,
    "sparse": lambda _: random_csr(131, 50, 0.2),
    "few unknown": unknown,
    "many unknown": lambda kind: unknown(kind, 0.7),
}
"""Kinds of samples, by name; functions of the kind of problem."""


def params(**others):
    return {
        "n_components": 8,
        "reduction": 3,
        "tol": 0,
        "batch_size": 30,
        "n_epochs": 2,
        "random_state": 0,
        "n_threads": 1,
    } | others


def fit(_, kind, settings, X, options=None):
    """Fit; return what a test compares."""
    model = getattr(somf, kind)(**settings).fit(X, **(options or {}))
    return model.components_, model.n_iter_, model.history_.get("objective"), model.alpha_


def fit_offsets(_, settings, X, sample_weight):
    """Fit; return the atoms and the offsets."""
    model = somf.DictionaryLearning(**settings).fit(X, sample_weight=sample_weight)
    return model.components_, model.offsets_


def fit_many(rank, cases, size):
    """Fit all cases; return the atoms, and on rank 0 those of `replay`."""
    before, found = (row_work.PIECE_ROWS, data_loader.SLAB_BYTES, gather.PIECE_BYTES), []
    # 50 features are several pieces, and so are the samples of a minibatch.
    row_work.PIECE_ROWS, data_loader.SLAB_BYTES, gather.PIECE_BYTES = 7, 1, 2000
    for kind, settings, which in cases:
        X = DATA[which](kind)
        components = fit(rank, kind, settings, X)[0]
        expected = replay(kind, settings, X, size).components if rank == 0 else None
        found.append((components, expected))
    row_work.PIECE_ROWS, data_loader.SLAB_BYTES, gather.PIECE_BYTES = before
    return found


def replay(kind, settings, X, size):
    """Return the state of one process that takes the minibatches of several ranks."""
    model = getattr(somf, kind)(**settings)
    source, seed = model._opened(X)[0], model._draw_seed()
    config = requested(model, source)
    edges = edges_of(X.shape[0], size)
    shares = [hold_out(source, None, seed, Rows(rank, edges)).samples for rank in range(size)]
    if isinstance(model.init, str):
        model.set_params(init=first_atoms(config, source, shares, seed).T)
        config = requested(model, source)
    state = start(config, source, hold_out(source, None, seed).samples, seed, is_finite=True)
    loader = loader_for("cpu", source, state.dtype, state.permutation)
    solver, convergence = Solver(config, state), Convergence(config, X.shape[0])
    solver.forgetting.expect_epochs(X.shape[0], convergence.noisy_from, convergence.quiet_from)
    # The minibatches of a pass are larger, which changes nothing but rounding.
    passes = [
        epochs(loader, share, seed, lambda: config.batch_size, config.n_epochs) for share in shares
    ]
    for parts in zip(*passes, strict=True):
        ids = np.concatenate([part.ids for part in parts])
        assert len(ids) == parts[0].size
        if is_pass_due(state):
            begin_pass(solver, np.arange(len(X)), 0)
        solver.step(loader.load(ids), ids)
        if convergence.is_due(state.n_samples_seen):
            convergence.conclude(solver)
        if convergence.is_over:
            break
    return state


def requested(model, source):
    n, p = source.shape
    config = for_source(model._requested_config(), source).for_samples(n, p)
    return config.with_surrogate(n <= p)


def first_atoms(config, source, shares, seed):
    """Return the initial atoms of several ranks."""
    chosen = [
        s.generator(seed, "init").permutation(s.ids)[: s.first(config.n_components)[s.rows.rank]]
        for s in shares
    ]
    rows = Loader(source, np.dtype(np.float64)).load(np.concatenate(chosen))
    rows = rows if isinstance(rows, np.ndarray) else rows.toarray()
    atoms = np.zeros((rows.shape[1], config.n_components))
    atoms[:, : len(rows)] = rows.T
    return config.ball.normalise(atoms)


class CountingSource(Source):
    """Samples, with a list of the rows that were read."""

    def __init__(self, X):
        self.X, self.shape, self.dtype, self.read_rows = X, X.shape, X.dtype, set()

    def rows(self, ids):
        self.read_rows.update(ids.tolist())
        return self.X[ids]


def rows_read(_, X, settings):
    source = CountingSource(X)
    somf.DictionaryLearning(**settings).fit(source, validation=0.1)
    return source.read_rows


def fit_own(rank, X, edges, settings):
    """Fit with rows that this rank alone has."""
    model = somf.DictionaryLearning(**settings)
    return model.fit(X[edges[rank] : edges[rank + 1]], ranks="own").components_


def stop_at(n_iter, happen):
    def callback(progress):
        if progress.n_iter == n_iter:
            happen()

    return callback


def interrupted(n_iter):
    raise InterruptedError(f"at iteration {n_iter}")


def fit_with_checkpoint(_, path, n_stop, settings, which="dense"):
    """Fit with a checkpoint after every step; raise an error on all ranks if asked for."""
    callbacks = [stop_at(n_stop, lambda: interrupted(n_stop))] if n_stop else ()
    model = somf.DictionaryLearning(
        **settings,
        checkpoint=somf.Checkpoint(path, every_samples=1, hash_data=True),
        callbacks=callbacks,
    )
    model.fit(DATA[which]("DictionaryLearning"), validation=0.2)
    return model.components_, model.n_iter_, model.history_["objective"]


def fit_and_save(rank, path, settings):
    """Fit with a checkpoint, save the model with its state, and return it."""
    model = somf.DictionaryLearning(**settings, checkpoint=path).fit(samples())
    if rank == 0:
        model.save(f"{path}.model", state=True)
    return model


def fail(rank, which, how):
    """Let one rank fail in the fourth iteration; the others return their error, and when."""
    happen = {
        "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
        "raise": lambda: interrupted(4),
        "hang": lambda: time.sleep(30),
    }[how]
    callback = stop_at(4, lambda: rank == which and (note_time(), happen()))
    settings = params(n_epochs=1000, callbacks=[callback])
    try:
        somf.DictionaryLearning(**settings).fit(samples())
    except Exception as error:
        return type(error).__name__, str(error), time.time()
    return None


def note_time():
    with open(os.environ["SOMF_TEST_NOTE"], "w") as file:
        file.write(repr(time.time()))


def terminate(rank, which, path, n_epochs):
    """Send SIGTERM to one rank; return the error."""
    callbacks = [stop_at(4, lambda: rank == which and os.kill(os.getpid(), signal.SIGTERM))]
    model = somf.DictionaryLearning(
        **params(n_epochs=n_epochs), checkpoint=path, callbacks=callbacks
    )
    try:
        model.fit(samples())
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    return None


def inference(rank, components, X, folder):
    """Return codes, objective and gap, and write codes to files."""
    model = somf.DictionaryLearning(**params(n_epochs=1), verbose=0).fit(X, ranks="off")
    model.components_ = components
    codes = model.transform(X, ranks="share")
    out = np.zeros_like(codes)
    assert model.transform(X, out=out, ranks="share") is out
    zarr = model.transform(X, out=f"{folder}/codes.zarr", ranks="share")
    npy = model.transform(X, out=f"{folder}/codes.npy", ranks="share")
    sparse = model.transform(X, out=f"{folder}/codes.npz", sparse=True, ranks="share")
    return {
        "codes": [codes, out, zarr[:], np.asarray(npy), sparse.toarray()],
        "objective": model.objective(X, ranks="share"),
        "gap": model.stationarity_gap(X, ranks="share"),
        "rank": rank,
    }


def messages(_, kind):
    """Return what the methods of a communicator give."""
    ranks = communicator_for("cpu")
    large = np.arange(3000.0).reshape(3, 1000) * (1 + ranks.rank)
    ranks.enclose("number", 2.5)
    symmetric = np.add.outer(np.arange(5.0), np.arange(5.0)) * ranks.rank
    symmetric, *sums = ranks.sum(symmetric, large, np.full(3, ranks.rank), n_symmetric=1)
    number = ranks.enclosed("number")
    wishes = [ranks.agree("wish", ranks.rank == 1)]
    ranks.sum(large)
    wishes.append(ranks.agree("wish", False))
    return {
        "sums": sums,
        "symmetric": symmetric,
        "number": number,
        "wishes": wishes,
        "any": (ranks.any(ranks.rank == 0), ranks.any(False)),
        "total": ranks.total(1.0, float(ranks.rank)),
        "latest": ranks.latest(np.array([ranks.rank, -ranks.rank])),
        "gather": ranks.gather(np.arange(ranks.rank)),
        "tell": ranks.tell({"rank": ranks.rank}),
        "n": (ranks.rank, ranks.size, kind),
    }


IDLE_PIECES = 5
"""Pieces of work of a rank that waits."""


def work_while_waiting(rank):
    """Wait for rank 0, which is late; return how many pieces of work were done meanwhile."""
    left, n_done = [0] * IDLE_PIECES, 0

    def work():
        nonlocal n_done
        if not left:
            return False
        left.pop()
        n_done += 1
        return True

    communicator = communicator_for("cpu")
    communicator.any(False)  # all are there
    if rank == 0:
        time.sleep(0.5)
    with communicator.when_idle(work):
        if rank == 0:
            left.clear()
        communicator.any(False)
    return n_done


def bytes_per_step(_, settings, n_features):
    """Return the bytes that this rank sends in a step, once the fit has begun."""
    X = planted(200, n_features, 8)[0]
    ranks, counts = communicator_for("cpu"), []
    settings = settings | {"callbacks": [lambda _: counts.append(ranks.n_bytes)]}
    somf.DictionaryLearning(**settings).fit(X)
    return np.diff(counts).tolist()


def aligned(rank):
    """Return the dictionary after rounding has made those of the ranks differ."""
    ranks = communicator_for("cpu")
    model = somf.DictionaryLearning(**params(n_epochs=1)).fit(samples(), ranks="off")
    solver = Solver(model._fitted_config, model._state, ranks)
    model._state.D[3, 2] += 1e-12 * rank
    solver.align()
    return model._state.D, model._state.grams


def use_nccl(rank, cases):
    """Return what a group of one rank gives on a GPU, by NCCL."""
    import torch
    from torch import distributed

    from somf.distributed.failures import Witness
    from somf.distributed.process_group import ProcessGroup
    from somf.estimators import model

    torch.cuda.set_device(0)
    store = distributed.distributed_c10d._get_default_store()
    groups = [distributed.new_group(backend=backend) for backend in ("gloo", "nccl")]
    ranks = ProcessGroup(torch, *groups, Witness(store, rank, 1), 60.0)
    ranks.enclose("number", 2.5)
    tensor = torch.arange(3000.0, device="cuda")
    (total,) = ranks.sum(tensor)
    found = {
        "sum": total.cpu().numpy(),
        "exchanged": ranks.exchange(tensor[:3][None].contiguous())[0].tolist(),
        "number": ranks.enclosed("number"),
        "fits": [],
    }
    model.communicator_for = lambda _: ranks
    for kind, settings, X in cases:
        on_gpu = settings | {"device": "cuda"}
        found["fits"].append(
            [fit(rank, kind, on_gpu, X, {"ranks": which})[0] for which in ("off", "share")]
        )
    return found


def shares_memory(rank):
    """Return whether messages go through shared memory."""
    return communicator_for("cpu").shared_memory is not None


def exchange_sizes(rank):
    """Exchange messages of some sizes; return what was received, by size."""
    ranks, found = communicator_for("cpu"), {}
    for size in (3, 0, 100_000, 7, 300_001):
        parts = [np.full(size, 100 * rank + receiver) for receiver in range(ranks.size)]
        found[size] = ranks.exchange(np.stack(parts))
    return found


def keep_messages(rank):
    """Return what a rank has received first, as a copy, and as it is after other messages."""
    ranks = communicator_for("cpu")
    received = ranks.exchange(np.full((ranks.size, 50), float(rank)))
    copy = received.copy()
    for number in range(5):
        ranks.exchange(np.full((ranks.size, 50), 10.0 + number))
    return copy, received


def disagree(rank):
    """Fit with another reduction on each rank; return the error."""
    try:
        somf.DictionaryLearning(**params(reduction=3 + 2 * rank)).fit(samples())
    except somf.errors.RankError as error:
        return str(error)
    return "no error"
