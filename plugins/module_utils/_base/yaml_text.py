# SPDX-License-Identifier: GPL-3.0-or-later
"""YAML without its traps: a date stays text, and a key written twice is refused instead of half forgotten.

PyYAML comes with Ansible, so the controller has it; hosts don't, which is why it is imported only where a text is read.
"""

import contextlib
import functools
from typing import Any

# A file that a person wrote stays far below; what is larger would take the plan minutes.
_MOST_TEXT = 1 << 20
_MOST_NODES = 50_000
_MOST_DEPTH = 100


def read_yaml(text: str) -> Any:
    """The data of a YAML text; ``ValueError`` says in one line why there is none."""
    import yaml  # noqa: PLC0415 - see above

    text = str(text)  # Ansible's loader gives a kind of str that libyaml takes for a stream
    if len(text) > _MOST_TEXT:
        raise ValueError(f"it has {len(text)} letters; expected at most {_MOST_TEXT}")
    try:
        with contextlib.suppress(yaml.YAMLError):  # Python's own reader says it better, with the line
            if fast := getattr(yaml, "CSafeLoader", None):
                return yaml.load(text, _loader(fast))
        return yaml.load(text, _loader(yaml.SafeLoader))
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        raise ValueError(" ".join(str(error).split())) from error


def _size(node: Any, known: dict[int, int]) -> int:
    """How many values a node stands for, each alias as what it repeats. known: by id, of nodes that were counted."""
    if not isinstance(node.value, list):
        return 1
    if id(node) not in known:
        known[id(node)] = _MOST_NODES  # while it is counted: one that holds itself has no end
        size = 1
        for child in node.value:
            for part in child if isinstance(child, tuple) else (child,):
                size += _size(part, known)
        known[id(node)] = size
    return known[id(node)]


def written_twice(text: str) -> list[tuple[str, int, int]]:
    """(key, its line, the line where it stands before) of every key that a map of a YAML text has already.

    A text that is no YAML has none: whoever reads it says so.
    """
    import yaml  # noqa: PLC0415 - see above

    try:
        documents = [*yaml.compose_all(str(text), _loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)))]
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
    return sorted(found, key=lambda item: item[1])


@functools.cache
def _loader(base: Any) -> Any:
    import yaml  # noqa: PLC0415 - see above

    class Loader(base):  # type: ignore[misc]  # one of PyYAML's two
        depth = 0

        # PyYAML calls these two as it goes into a value and out of it again. By libyaml, which reads much faster, it
        # ends the whole program where lists in lists are too deep for its stack.
        def descend_resolver(self, parent: object, index: object) -> None:
            self.depth += 1
            if self.depth > _MOST_DEPTH + 1:  # a value in them is one more
                raise ValueError(f"it has lists or maps in each other more than {_MOST_DEPTH} deep")

        def ascend_resolver(self) -> None:
            self.depth -= 1

        def get_single_data(self) -> Any:
            node = self.get_single_node()
            if node is not None and _size(node, {}) > _MOST_NODES:
                raise yaml.MarkedYAMLError(problem=f"its aliases stand for more than {_MOST_NODES} values")
            return None if node is None else self.construct_document(node)

        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
            keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
            twice = next((key for index, key in enumerate(keys) if key in keys[:index]), None)
            if twice is not None:
                raise yaml.MarkedYAMLError(problem=f'"{twice}" is written twice', problem_mark=node.start_mark)
            found: dict[Any, Any] = super().construct_mapping(node, deep)
            return found

    Loader.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    return Loader
