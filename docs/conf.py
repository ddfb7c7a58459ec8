r"""How the site is made of these pages and of the docstrings: `make docs`.

Nothing is fetched, neither when the site is built nor when it is looked at. Formulas become MathML,
which browsers draw themselves; the converter wants arguments in braces, as in ``\frac{1}{2}``.
"""

from typing import Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx

import somf

project = "somf"
author = "The somf developers"
copyright = author
version = release = somf.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "numpydoc",
]

myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # numpydoc sections say it in words, and with shapes
numpydoc_show_class_members = False  # pages say which members there are
default_role = "py:obj"  # `names` in docstrings are links where there is something to link to

html_theme = "furo"
html_title = f"somf {version}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_search_summary = False  # pages opened from a disk may not read each other
html_math_renderer = "mathml"


def draw_inline(self: Any, node: nodes.math) -> None:
    """Write a formula of a line as MathML."""
    self.body.append(tex2mathml(node.astext()))
    raise nodes.SkipNode


def draw_block(self: Any, node: nodes.math_block) -> None:
    """Write a formula of its own as MathML."""
    self.body.append(f'<div class="formula">{tex2mathml(node.astext(), as_block=True)}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> None:
    """Tell Sphinx how formulas are drawn."""
    app.add_html_math_renderer("mathml", (draw_inline, None), (draw_block, None))
