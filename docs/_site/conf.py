"""How Sphinx makes the site; `tools/site.py` prepares the pages and says which version they are."""

from __future__ import annotations

import os
from pathlib import Path

_HERE = Path(__file__).parent

project = "Interlock"
copyright = "the authors of Interlock; Apache-2.0"  # noqa: A001 - Sphinx calls it so
version = release = os.environ["INTERLOCK_SITE_VERSION"]

extensions = ["myst_parser"]
myst_heading_anchors = 4
nitpicky = True
exclude_patterns = ["_site"]

html_theme = "pydata_sphinx_theme"
html_title = f"Interlock {version}"
html_favicon = str(_HERE.parents[1] / "src" / "interlock" / "console" / "static" / "icon.svg")
html_static_path = [str(_HERE / "static")]
html_css_files = ["site.css"]
html_js_files = [("versions.js", {"defer": "defer"})]  # once the page is there
templates_path = [str(_HERE / "templates")]
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_theme_options = {
    "logo": {"text": "Interlock"},
    "header_links_before_dropdown": 8,
    "navbar_end": ["versions", "theme-switcher"],
    "navbar_persistent": ["search-button"],
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_prev_next": True,
    "navigation_with_keys": False,
}
# The first page has no neighbours to list at its side.
html_sidebars = {"index": [], "what-happens-when": [], "compared-with": [], "faq": []}
