# SPDX-License-Identifier: GPL-3.0-or-later
"""vLLM's source as text: which module a name comes from, and what a name is worth, without importing anything.

Nothing of the package is executed: modules are parsed with `ast`, names are followed through imports, and only
literals are evaluated. What can't be known that way is `UNKNOWN`.
"""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


class _Unknown:
    """The value of what only a running vLLM knows."""

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN = _Unknown()


class Tree(Mapping[str, str]):
    """The Python files below a directory that holds the package `vllm`, read when asked for."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def __getitem__(self, path: str) -> str:
        try:
            return (self._root / path).read_text(encoding="utf-8", errors="replace")
        except OSError:
            raise KeyError(path) from None

    def __iter__(self) -> Iterator[str]:
        return (path.relative_to(self._root).as_posix() for path in sorted(self._root.glob("vllm/**/*.py")))

    def __len__(self) -> int:
        return sum(1 for _ in self)


@dataclass(frozen=True)
class Symbol:
    """Something that a module binds: the node, and the module to resolve its inner names in."""

    node: ast.AST
    module: "Module"


class Module:
    """One parsed module and the names that its top level binds at run time."""

    def __init__(self, source: "Source", name: str, tree: ast.Module, package: str) -> None:
        self.source, self.name, self.tree, self.package = source, name, tree, package
        self.bindings: dict[str, ast.AST] = {}
        self._stars: list[ast.ImportFrom] = []
        self._bind(tree.body)

    def _bind(self, body: list[ast.stmt]) -> None:
        for node in body:
            match node:
                case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                    self.bindings[name] = node
                case ast.Assign(targets=targets, value=value):
                    for target in targets:
                        if isinstance(target, ast.Name):
                            self.bindings[target.id] = value
                case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                    self.bindings[name] = value
                case ast.ImportFrom(names=[ast.alias(name="*")]):
                    self._stars.append(node)
                case ast.Import() | ast.ImportFrom():
                    for alias in node.names:
                        self.bindings[alias.asname or alias.name.split(".")[0]] = node
                # What `else:` binds is what exists at run time; `if TYPE_CHECKING:` fills the rest.
                case ast.If(body=inner, orelse=other) | ast.Try(body=inner, orelse=other):
                    self._bind(inner)
                    self._bind(other)
                case _:
                    pass

    def resolve(self, name: str, seen: frozenset[tuple[str, str]] = frozenset()) -> Symbol | None:
        """What a name or a dotted name means here, followed through vLLM's own imports."""
        head, _, rest = name.partition(".")
        if (self.name, name) in seen:
            return None
        seen |= {(self.name, name)}
        node = self.bindings.get(head)
        if node is None:
            return self._starred(name, seen)
        match node:
            case ast.Import():
                return self.source.resolve_path(name, seen)
            case ast.ImportFrom():
                return self._imported(node, head, rest, seen)
            case ast.Name(id=other) if other in self.bindings and other != head:
                return self.resolve(f"{other}.{rest}" if rest else other, seen)
            case _:
                return None if rest else Symbol(node, self)

    def _imported(self, node: ast.ImportFrom, head: str, rest: str, seen: frozenset[tuple[str, str]]) -> Symbol | None:
        original = next(alias.name for alias in node.names if (alias.asname or alias.name) == head)
        origin = self._origin(node)
        wanted = f"{original}.{rest}" if rest else original
        module = self.source.module(origin)
        found = module.resolve(wanted, seen) if module else None
        return found or self.source.resolve_path(f"{origin}.{wanted}", seen)

    def _starred(self, name: str, seen: frozenset[tuple[str, str]]) -> Symbol | None:
        for node in self._stars:
            module = self.source.module(self._origin(node))
            found = module.resolve(name, seen) if module else None
            if found is not None:
                return found
        return None

    def _origin(self, node: ast.ImportFrom) -> str:
        """The full name of the module that an import names, relative or not."""
        if not node.level:
            return node.module or ""
        parents = self.package.split(".")[: len(self.package.split(".")) - node.level + 1]
        return ".".join([*parents, node.module] if node.module else parents)


class Source:
    """vLLM's package as a mapping of path to text, e.g. ``vllm/envs.py``."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self._files = files
        self._modules: dict[str, Module | None] = {}

    def module(self, name: str) -> Module | None:
        """A module by its dotted name; None if it isn't vLLM's, isn't there, or can't be parsed."""
        if name not in self._modules:
            self._modules[name] = self._read(name)
        return self._modules[name]

    def _read(self, name: str) -> Module | None:
        if name.split(".", maxsplit=1)[0] != "vllm":
            return None
        path = name.replace(".", "/")
        for candidate, package in ((f"{path}/__init__.py", name), (f"{path}.py", name.rpartition(".")[0])):
            text = self._files.get(candidate)
            if text is not None:
                try:
                    return Module(self, name, ast.parse(text), package)
                except (SyntaxError, ValueError):
                    return None
        return None

    def siblings(self, package: str) -> list[Module]:
        """Every module that lies directly in a package, by name."""
        prefix = package.replace(".", "/") + "/"
        names = sorted(path for path in self._files if path.startswith(prefix) and "/" not in path[len(prefix) :])
        modules = (self.module(package + "." + path[len(prefix) : -3]) for path in names)
        return [module for module in modules if module is not None]

    def resolve_path(self, name: str, seen: frozenset[tuple[str, str]] = frozenset()) -> Symbol | None:
        """``vllm.config.cache.CacheConfig``: the longest module that exists, then the name within."""
        parts = name.split(".")
        for cut in range(len(parts) - 1, 0, -1):
            module = self.module(".".join(parts[:cut]))
            if module is not None:
                return module.resolve(".".join(parts[cut:]), seen)
        return None


def dotted(node: ast.AST) -> str:
    """``a.b.c`` for a chain of names, else an empty text."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=attr):
            left = dotted(value)
            return f"{left}.{attr}" if left else ""
        case _:
            return ""


def literal_values(node: ast.AST, module: Module) -> list[Any]:
    """The values of a `Literal[...]`, of an alias of one, or of a union of them; empty if it is something else."""
    match node:
        case ast.Subscript(value=value, slice=inner) if dotted(value).endswith("Literal"):
            items = inner.elts if isinstance(inner, ast.Tuple) else [inner]
            return [value for item in items for value in _literal_item(item, module)]
        case ast.Subscript(value=value, slice=inner) if dotted(value).split(".")[-1] in ("Union", "Optional"):
            items = inner.elts if isinstance(inner, ast.Tuple) else [inner]
            return [value for item in items for value in literal_values(item, module)]
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return literal_values(left, module) + literal_values(right, module)
        case ast.Name() | ast.Attribute():
            symbol = module.resolve(dotted(node))
            if symbol is not None and symbol.node is not node:
                return literal_values(symbol.node, symbol.module)
            return []
        case _:
            return []


def _literal_item(item: ast.expr, module: Module) -> list[Any]:
    if isinstance(item, ast.Constant):
        return [item.value]
    return literal_values(item, module)


def enum_members(symbol: Symbol) -> dict[str, Any]:
    """The members of an Enum class in order: name to value, None where the value isn't a literal."""
    if not isinstance(symbol.node, ast.ClassDef):
        return {}
    members: dict[str, Any] = {}
    for statement in symbol.node.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if not name.startswith("_"):
                members[name] = value.value if isinstance(value, ast.Constant) else None
            case _:
                pass
    return members
