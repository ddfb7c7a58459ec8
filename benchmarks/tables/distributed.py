"""Tables of `benchmarks.distributed`, and its model of the time of a step."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from benchmarks.distributed import WEAK_BATCH, formula, least, n_messages
from benchmarks.ranks import REDUCTION, STRONG_BATCH
from benchmarks.tables.markdown import conditions, size, table

N_NODES = 64
"""Nodes of the extrapolation, one rank on each."""

N_BYTES = 340e12
"""Bytes of the data of the extrapolation, in float32."""

BATCHES = (400, 1600, 6400, 25_600)
"""Global batches of the extrapolation."""

ENOUGH = 0.8
"""The parallel efficiency that a batch is asked for."""


class Network(NamedTuple):
    """Latency in seconds of a message, and of each further peer; bytes per second of a rank."""

    latency: float
    per_peer: float
    bandwidth: float


NETWORKS = {
    "10 GbE": Network(50e-6, 5e-6, 1.1e9),
    "100 Gb/s": Network(20e-6, 2e-6, 11e9),
    "NVLink, NCCL": Network(15e-6, 1e-6, 200e9),
}
"""Assumptions, a little below what these networks are sold with."""


def setting(results: dict[str, Any]) -> str:
    """Return the machine and the problem."""
    facts = {"threads per rank": results["n_threads"], "p": "51,200", "k": 100}
    facts |= results.get("topology", {})
    return conditions(results["machine"], facts)


def traffic(results: dict[str, Any]) -> str:
    """Return the bytes of a step, counted in two ways, and two formulas."""
    n_ranks = max(map(int, results["strong"]))

    def least_of(r: str) -> float:
        return least(results["n_features"], float(r), n_ranks)

    return table(
        (
            "r",
            "MB sent per rank and step",
            "formula",
            "difference",
            "least",
            "above the least",
            "on the interface",
        ),
        (
            (
                r,
                f"{row['bytes'] / 1e6:.2f}",
                f"{row['formula'] / 1e6:.2f}",
                f"{100 * (row['bytes'] / row['formula'] - 1):+.1f} %",
                f"{least_of(r) / 1e6:.2f}",
                f"{100 * (row['bytes'] / least_of(r) - 1):+.1f} %",
                f"{row['loopback'] / 1e6:.2f}",
            )
            for r, row in results["bytes"].items()
        ),
    )


def strong(results: dict[str, Any]) -> str:
    """Return milliseconds per step of one global batch, of ranks, a process, and the model."""
    rows = results["strong"]
    one = rows["1"]["milliseconds"]
    return table(
        (
            "ranks",
            "ms per step",
            "efficiency",
            "model",
            "one process, as many threads",
            "its efficiency",
            "of it",
            "by gloo, ms",
        ),
        (
            (
                n,
                _spread(row),
                f"{one / row['milliseconds'] / int(n):.2f}",
                f"{1e3 * predicted(results, int(n), STRONG_BATCH):.1f}",
                _spread(results["processes"][n]),
                f"{one / results['processes'][n]['milliseconds'] / int(n):.2f}",
                f"{results['processes'][n]['milliseconds'] / row['milliseconds']:.2f}",
                _spread(results["gloo"][n]) if n in results["gloo"] else "",
            )
            for n, row in rows.items()
        ),
    )


def ceiling(results: dict[str, Any]) -> str:
    """Return what ranks could reach if messages took no time, and what they reach."""
    one = results["strong"]["1"]["milliseconds"]

    def efficiency_of(n: str, row: dict[str, float]) -> float:
        return one / row["milliseconds"] / int(n)

    return table(
        (
            "ranks",
            "one process alone, ms",
            "all processes at once, ms",
            "ceiling of the efficiency",
            "efficiency of ranks",
            "of the ceiling",
        ),
        (
            (
                n,
                _spread(results["one alone"][n]),
                _spread(row),
                f"{efficiency_of(n, row):.2f}",
                f"{efficiency_of(n, results['strong'][n]):.2f}",
                f"{row['milliseconds'] / results['strong'][n]['milliseconds']:.2f}",
            )
            for n, row in results.get("ceiling", {}).items()  # older results have none
        ),
    )


def weak(results: dict[str, Any]) -> str:
    """Return milliseconds per step with a batch that grows with the ranks."""
    rows = results["weak"]
    return table(
        ("ranks", "batch", "ms per step", "samples per second", "model, ms"),
        (
            (
                n,
                WEAK_BATCH * int(n),
                _spread(row),
                size(1e3 * WEAK_BATCH * int(n) / row["milliseconds"]),
                f"{1e3 * predicted(results, int(n), WEAK_BATCH * int(n)):.1f}",
            )
            for n, row in rows.items()
        ),
    )


def links(results: dict[str, Any]) -> str:
    """Return latency and bandwidth between the ranks of the machine."""
    return table(
        ("ranks", "small message, µs", "GB/s sent per rank"),
        (
            (n, f"{1e6 * latency:.0f}", f"{bandwidth / 1e9:.2f}")
            for n, (latency, bandwidth) in results["messages"].items()
        ),
    )


def deaths(results: dict[str, Any]) -> str:
    """Return the seconds from the death of a rank to the error on all others."""
    return table(
        ("kills", "seconds to the last error, median", "largest"),
        [
            (
                len(results["deaths"]),
                f"{sorted(results['deaths'])[len(results['deaths']) // 2]:.2f}",
                f"{max(results['deaths']):.2f}",
            )
        ],
    )


def extrapolation(results: dict[str, Any]) -> str:
    """Return the time of an epoch over the large data set, by network and batch."""
    n_samples = N_BYTES / results["itemsize"] / results["n_features"]

    def rows() -> Iterator[tuple[object, ...]]:
        for name, network in NETWORKS.items():
            for batch in BATCHES:
                seconds = on_network(results, network, batch)
                days = n_samples / batch * seconds / 86_400
                yield (
                    name,
                    size(batch),
                    f"{1e3 * seconds:.1f}",
                    f"{efficiency(results, network, batch):.2f}",
                    size(batch / seconds),
                    f"{days:.1f}",
                )

    return table(
        ("network", "batch", "ms per step", "efficiency", "samples per second", "days per epoch"),
        rows(),
    )


def batches(results: dict[str, Any]) -> str:
    """Return the batch that each network needs, with and without subsampling."""
    return table(
        ("network", *(f"batch for {ENOUGH:.0%}, r = {r}" for r in (1, 4, 12))),
        (
            (name, *(size(needed(results, network, r)) for r in (1, 4, 12)))
            for name, network in NETWORKS.items()
        ),
    )


def compute(results: dict[str, Any], batch: float) -> float:
    """Return the seconds of a step of one rank alone: a constant, and a part for each sample."""
    few, many = (results[kind]["1"]["milliseconds"] / 1e3 for kind in ("weak", "strong"))
    per_sample = max((many - few) / (STRONG_BATCH - WEAK_BATCH), 0.0)
    return few + per_sample * (batch - WEAK_BATCH)


def predicted(results: dict[str, Any], n_ranks: int, batch: float) -> float:
    """Return the seconds of a step of some ranks on the machine of the measurements."""
    seconds = compute(results, batch) / n_ranks
    if n_ranks == 1:
        return seconds
    latency, bandwidth = results["messages"][str(n_ranks)]
    n_bytes = formula(results["n_features"], REDUCTION, n_ranks)
    n = n_messages(n_ranks, REDUCTION)
    return float(seconds + n * latency + n_bytes / bandwidth)


def on_network(
    results: dict[str, Any], network: Network, batch: float, reduction: float = REDUCTION
) -> float:
    """Return the seconds of a step of many nodes, each as fast as the rank of the measurements."""
    latency = network.latency + (N_NODES - 1) * network.per_peer
    n_bytes = formula(results["n_features"], reduction, N_NODES)
    seconds = compute(results, batch) / N_NODES
    n = n_messages(N_NODES, reduction)
    return seconds + n * latency + n_bytes / network.bandwidth


def efficiency(
    results: dict[str, Any], network: Network, batch: float, reduction: float = REDUCTION
) -> float:
    """Return the part of the time that is not spent on messages."""
    return compute(results, batch) / N_NODES / on_network(results, network, batch, reduction)


def needed(results: dict[str, Any], network: Network, reduction: float) -> float:
    """Return the smallest batch, a power of two times 100, that is efficient enough."""
    batch = 100.0
    while efficiency(results, network, batch, reduction) < ENOUGH:
        batch *= 2
    return batch


def _spread(row: dict[str, float]) -> str:
    return f"{row['milliseconds']:.1f} ({row['low']:.1f} to {row['high']:.1f})"
