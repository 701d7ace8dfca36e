# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sphinx's settings for the site that tools/docsite.py makes."""

from __future__ import annotations

project = "gb10.fleet"
copyright = "gb10.fleet contributors"
extensions = ["sphinx_antsibull_ext", "myst_parser"]
html_theme = "furo"
html_title = "gb10.fleet"
html_copy_source = False
html_static_path = ["static"]
html_css_files = ["site.css"]
myst_heading_anchors = 3
# labels of ansible-core's own pages are on another site, which a build without a network doesn't ask
suppress_warnings = ["ref.ref"]
