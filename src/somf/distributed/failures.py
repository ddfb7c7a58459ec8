"""Which rank has failed, and why: the ranks leave notes in the store that they have met by.

A rank that raises an error reports it before anything else. A rank that was killed reports nothing,
so the others call the roll: the rank that does not answer is the one.
"""

import json
import os
import socket
from time import monotonic, sleep
from typing import Any

from somf.errors import RankError

ROLL_CALL_SECONDS = 1.5
"""How long a rank has to answer the roll call."""

ROLL_CALL_PAUSE = 0.02
"""Seconds between two looks at who has answered."""

LONGEST_CAUSE = 2000
"""Characters of an error that other ranks are told."""


class Witness:
    """The notes of all ranks about failures.

    Parameters
    ----------
    store : torch.distributed.Store
        With a prefix of its own.
    rank, size : int
    """

    def __init__(self, store: Any, rank: int, size: int) -> None:
        self.store, self.rank, self.size = store, rank, size
        self._verdict: RankError | None = None

    def introduce(self) -> None:
        """Leave a note of who this rank is."""
        who = {"host": socket.gethostname(), "process": os.getpid()}
        self.store.set(f"who/{self.rank}", json.dumps(who))

    def report(self, error: BaseException) -> None:
        """Leave a note of an error of this rank; the first note is the one that others see."""
        try:
            if self.store.add("n_errors", 1) == 1:
                cause = f"{type(error).__name__}: {error}"[:LONGEST_CAUSE]
                self.store.set("error", json.dumps({"rank": self.rank, "cause": cause}))
        except RuntimeError:  # the store is gone, and with it the rank that holds it
            pass

    def look(self) -> None:
        """Raise RankError if another rank has reported an error."""
        try:
            is_there = self.store.check(["error"])
        except RuntimeError:
            raise self._without_store() from None
        if is_there:
            raise self._reported()

    def verdict(self, symptom: str) -> RankError:
        """Return which rank has failed, after a message to it has failed.

        Parameters
        ----------
        symptom : str
            What this rank has seen of it.
        """
        if self._verdict is None:
            try:
                self._verdict = self._call_the_roll(symptom)
            except RuntimeError:
                self._verdict = self._without_store()
        return self._verdict

    def _call_the_roll(self, symptom: str) -> RankError:
        self.store.set(f"here/{self.rank}", "")
        end, missing = monotonic() + ROLL_CALL_SECONDS, list(range(self.size))
        while True:
            if self.store.check(["error"]):
                return self._reported()
            missing = [rank for rank in missing if not self.store.check([f"here/{rank}"])]
            # Messages are between all ranks. So all that live answer, and the last one does not.
            if len(missing) <= 1 or monotonic() > end:
                break
            sleep(ROLL_CALL_PAUSE)
        missing = missing or [rank for rank in range(self.size) if rank != self.rank]
        who = "; ".join(self._who(rank) for rank in missing)
        found = RankError(
            missing, self.size, f"does not answer: it was killed, or hangs ({who}; {symptom})."
        )
        self._wait_for_others(missing)
        return found

    def _wait_for_others(self, missing: list[int]) -> None:
        """Let rank 0, whose process may hold the store, end after all others have read it."""
        self.store.add("n_informed", 1)
        end = monotonic() + ROLL_CALL_SECONDS
        while self.rank == 0 and monotonic() < end:
            if self.store.add("n_informed", 0) >= self.size - len(missing):
                return
            sleep(ROLL_CALL_PAUSE)

    def _reported(self) -> RankError:
        note = json.loads(self.store.get("error"))
        rank = int(note["rank"])
        return RankError([rank], self.size, f"has failed ({self._who(rank)}): {note['cause']}")

    def _without_store(self) -> RankError:
        return RankError(
            [0], self.size, "does not answer: it was killed, or has ended, and the store with it."
        )

    def _who(self, rank: int) -> str:
        if not self.store.check([f"who/{rank}"]):
            return "unknown process"
        who = json.loads(self.store.get(f"who/{rank}"))
        return f"process {who['process']} on {who['host']}"
