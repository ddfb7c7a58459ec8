"""The callbacks of scikit-learn (1.9 and later), such as its progress bar, around a fit.

A fit is a task with one part for each minibatch, or for several of them where there are very many.
scikit-learn's side of this is imported only for those who use it: it is slow, and imports rich.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, Self, TypeVar, cast

from somf.callbacks import Callback, Progress

MOST_PARTS = 1000
"""Parts of a fit; scikit-learn keeps every one of them in memory until the fit ends."""

Method = TypeVar("Method", bound=Callable[..., Any])


class SklearnCallbacks:
    """What makes an estimator take the callbacks of scikit-learn."""

    def set_callbacks(self, *callbacks: Any) -> Self:
        """Set the callbacks of scikit-learn (1.9 and later) that follow `fit`.

        They are other than the parameter ``callbacks``: they know of scikit-learn's pipelines and
        searches, and may ask for a fitted copy of the estimator.

        Parameters
        ----------
        *callbacks : instances of sklearn.callback.FitCallback

        Returns
        -------
        self : object
        """
        try:
            from sklearn.callback import CallbackSupportMixin
        except ImportError as error:
            raise ImportError(
                "set_callbacks needs scikit-learn 1.9 or later: pip install -U scikit-learn."
            ) from error
        CallbackSupportMixin.set_callbacks(self, *callbacks)
        return self


def tearing_down(fit: Method) -> Method:
    """Return the method, after which the callbacks of scikit-learn are told that it is over."""

    @wraps(fit)
    def fit_and_tear_down(self: Any, *args: Any, **options: Any) -> Any:
        if not getattr(self, "_skl_callbacks", ()):
            return fit(self, *args, **options)
        from sklearn.callback import with_callbacks

        return with_callbacks(fit)(self, *args, **options)

    return cast(Method, fit_and_tear_down)


@contextmanager
def followed_by_sklearn(
    estimator: Any, X: Any, n_iter: int, attributes: Callable[[], dict[str, Any]]
) -> Iterator[list[Callback]]:
    """Tell the callbacks of scikit-learn that a fit begins, how it goes on, and that it ends.

    Parameters
    ----------
    estimator : estimator
    X : array-like, sparse matrix or Source
    n_iter : int
        How many iterations there will be, at most.
    attributes : callable
        Returns what a copy of the estimator must have in order to be a fitted one.

    Yields
    ------
    callbacks : list of callables
        To be called after every iteration; none where nobody asks.
    """
    if not getattr(estimator, "_skl_callbacks", ()):
        yield []
        return
    from sklearn.callback import CallbackSupportMixin

    per_part = -(-n_iter // MOST_PARTS)
    n_parts = -(-n_iter // per_part)
    fit = CallbackSupportMixin._init_callback_context(estimator, max_subtasks=n_parts)
    known = {"estimator": estimator, "X": X, "reconstruction_attributes": attributes}
    fit.call_on_fit_task_begin(estimator=estimator, X=X)
    n_iterations = 0
    part: Any = None

    def follow(progress: Progress) -> bool:
        nonlocal n_iterations, part
        n_iterations += 1
        is_over = progress.n_samples_seen >= progress.n_samples_planned
        if n_iterations % per_part and not is_over:
            return False
        is_enough = bool(part.call_on_fit_task_end(**known))
        part = None if is_over or is_enough else begin()
        return is_enough

    def begin() -> Any:
        return fit.subcontext("minibatches").call_on_fit_task_begin(**known)

    part = begin()
    yield [follow]
    if part is not None:  # a callback of another kind has ended the fit
        part.call_on_fit_task_end(**known)
    fit.call_on_fit_task_end(**known)
