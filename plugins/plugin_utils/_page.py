# SPDX-License-Identifier: GPL-3.0-or-later
"""A page of a template: one file that loads nothing. Jinja2 comes with Ansible and escapes each value."""

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

_ROOT = Path(__file__).resolve().parents[2]


def rendered(template: str, **values: object) -> str:
    """The whole page. template: its path in the collection."""
    folder, _, name = template.rpartition("/")
    environment = Environment(
        loader=FileSystemLoader(_ROOT / folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template(name).render(**values)
