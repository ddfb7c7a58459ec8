r"""Configuration of Sphinx, which builds the site from these pages and the docstrings: `make docs`.

Neither the build nor the site loads anything from the network. Formulas become MathML, which
browsers draw without a library. The converter needs arguments in braces, as in ``\frac{1}{2}``.
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
    "sphinx.ext.autosummary",
    "numpydoc",
]

myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # numpydoc sections describe types in words, with shapes
autosummary_generate = True  # writes the pages of api.md to docs/api
autosummary_context = {
    "from_scikit_learn": ["get_params", "set_params", "set_output", "get_metadata_routing"]
}
templates_path = ["templates"]
numpydoc_show_class_members = False  # the templates list the members
default_role = "py:obj"  # `names` in docstrings become links to the reference

html_theme = "furo"
html_title = f"somf {version}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_search_summary = False  # browsers do not let pages opened from a disk read each other
html_math_renderer = "mathml"


def draw_inline(self: Any, node: nodes.math) -> None:
    """Write an inline formula as MathML."""
    self.body.append(tex2mathml(node.astext()))
    raise nodes.SkipNode


def draw_block(self: Any, node: nodes.math_block) -> None:
    """Write a displayed formula as MathML."""
    self.body.append(f'<div class="formula">{tex2mathml(node.astext(), as_block=True)}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> None:
    """Register the renderer of formulas."""
    app.add_html_math_renderer("mathml", (draw_inline, None), (draw_block, None))
