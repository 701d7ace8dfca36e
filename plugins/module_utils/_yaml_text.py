# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""YAML without its traps: a date stays text, and a key written twice is refused instead of half forgotten.

PyYAML comes with Ansible, so the controller has it; hosts don't, which is why it is imported only where a text is read.
"""

from __future__ import annotations

import functools
from typing import Any


def read_yaml(text: str) -> Any:
    """The data of a YAML text; ``ValueError`` says in one line why there is none."""
    import yaml  # noqa: PLC0415 - see above

    try:
        return yaml.load(text, _loader())
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        raise ValueError(" ".join(str(error).split())) from error


@functools.cache
def _loader() -> Any:
    import yaml  # noqa: PLC0415 - see above

    class Loader(yaml.SafeLoader):
        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
            keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
            twice = next((key for index, key in enumerate(keys) if key in keys[:index]), None)
            if twice is not None:
                raise yaml.MarkedYAMLError(problem=f'"{twice}" is written twice', problem_mark=node.start_mark)
            return super().construct_mapping(node, deep)

    Loader.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    return Loader
