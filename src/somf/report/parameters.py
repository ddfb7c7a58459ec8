"""The parameters of a report, and the line of Python that repeats the fit."""

import inspect
from html import escape
from typing import Any

import numpy as np

from somf.algorithm.config import AUTO

LONGEST_VALUE = 200
"""The largest number of characters of the value of a parameter."""


def parameters(model: Any) -> str:
    """Return the rows of the table of parameters, with the alpha found and how patches were cut."""
    changed = _changed(model)
    rows = [
        _row(name, _short(value), "" if name in changed else "default")
        for name, value in model.get_params(deep=False).items()
        if name != "verbose"  # it does not change the model
    ]
    if model.alpha == AUTO:
        rows.append(_row("alpha_", _short(model.alpha_), "found"))
    patches = dict(getattr(model, "patches_", None) or {})
    images = patches.pop("images", [])
    patches |= images[0] if len(images) == 1 else {"images": len(images)} if images else {}
    for name, value in patches.items():
        rows.append(_row(f"patches: {name}", _short(value), "data"))
    return "\n".join(rows)


def _row(name: str, value: str, remark: str) -> str:
    kind = ' class="default"' if remark == "default" else ""
    return (
        f'<tr{kind}><th scope="row">{escape(name)}</th><td>{escape(value)}</td>'
        f"<td>{escape(remark)}</td></tr>"
    )


def _short(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"array of shape {value.shape}, {value.dtype}"
    text = _literal(value)
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}…"


def _literal(value: Any) -> str:
    return repr(value.item() if isinstance(value, np.generic) else value)


def _changed(model: Any) -> dict[str, Any]:
    """Return the parameters whose values are not the defaults."""
    signature = inspect.signature(type(model).__init__).parameters
    return {
        name: value
        for name, value in model.get_params(deep=False).items()
        if name != "verbose" and not np.array_equal(value, signature[name].default)
    }


def python_line(model: Any) -> str:
    """Return a line of Python that repeats the fit; the model does not store the data."""
    given = ", ".join(
        f"{name}={name if isinstance(value, np.ndarray) else _literal(value)}"
        for name, value in _changed(model).items()
    )
    more = ", validation=..." if "objective" in getattr(model, "history_", {}) else ""
    return f"somf.{type(model).__name__}({given}).fit(X{more})"
