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


def written_twice(text: str) -> list[tuple[str, int, int]]:
    """(key, its line, the line where it stands before) of every key that a map of a YAML text has already.

    A text that is no YAML has none: whoever reads it says so.
    """
    import yaml  # noqa: PLC0415 - see above

    try:
        documents = [*yaml.compose_all(text, yaml.SafeLoader)]
    except (ValueError, RecursionError, yaml.YAMLError):
        return []
    found, nodes, seen = [], documents, set()
    while nodes:
        node = nodes.pop()
        if id(node) in seen:
            continue  # an alias
        seen.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            nodes += node.value
        if isinstance(node, yaml.MappingNode):
            first: dict[str, int] = {}
            for key, value in node.value:
                nodes.append(value)
                if isinstance(key, yaml.ScalarNode):
                    line = key.start_mark.line + 1
                    if first.setdefault(key.value, line) != line:
                        found.append((key.value, line, first[key.value]))
    return sorted(found, key=lambda one: one[1])


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
