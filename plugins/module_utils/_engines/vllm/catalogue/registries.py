# SPDX-License-Identifier: GPL-3.0-or-later
"""vLLM's environment variables and registered names, read off its source.

Where a release keeps a registry moved over time; each reader below names the places that it knows.
"""

import ast
from collections.abc import Iterable
from dataclasses import replace

from .releases import Variable
from .source import Module, Source, dotted, enum_members, literal_values
from .types import class_fields

_VALIDATING = ("env_with_choices", "env_list_with_choices", "env_set_with_choices")

# Registries that are one `Literal` each: module and name.
_LITERALS = {
    "quantization": ("vllm.model_executor.layers.quantization", "QuantizationMethods"),
    "load_format": ("vllm.model_executor.model_loader", "LoadFormats"),
    "kv_cache_dtype": ("vllm.config.cache", "CacheDType"),
    "moe_backend": ("vllm.config.kernel", "MoEBackend"),
    "linear_backend": ("vllm.config.kernel", "LinearBackend"),
    "speculative_method": ("vllm.config.speculative", "SpeculativeMethod"),
}
# Packages that hold a release's parsers, and the table in them.
_PARSERS = {
    "reasoning_parser": (("vllm.reasoning",), "_REASONING_PARSERS_TO_REGISTER"),
    "tool_call_parser": (("vllm.tool_parsers", "vllm.entrypoints.openai.tool_parsers"), "_TOOL_PARSERS_TO_REGISTER"),
}


def read_registries(source: Source) -> dict[str, tuple[str, ...]]:
    """Every registry of the package, its names sorted; one that a release lacks is empty."""
    found = {
        "architecture": _architectures(source),
        "attention_backend": _attention_backends(source),
        "speculative_config": _speculative_config(source),
        **{name: _parsers(source, *place) for name, place in _PARSERS.items()},
        **{name: _literal(source, *place) for name, place in _LITERALS.items()},
    }
    return {name: tuple(sorted(set(names))) for name, names in found.items()}


def _literal(source: Source, module: str, name: str) -> list[str]:
    found = source.module(module)
    node = found.bindings.get(name) if found else None
    return [str(value) for value in literal_values(node, found)] if node and found else []


def _speculative_config(source: Source) -> Iterable[str]:
    symbol = source.resolve_path("vllm.config.speculative.SpeculativeConfig")
    return [field.name for field in class_fields(symbol)] if symbol else []


def _attention_backends(source: Source) -> Iterable[str]:
    for place in (
        "vllm.v1.attention.backends.registry.AttentionBackendEnum",
        "vllm.attention.backends.registry.AttentionBackendEnum",
        "vllm.attention.backends.registry._Backend",
        "vllm.platforms.interface._Backend",
    ):
        symbol = source.resolve_path(place)
        if symbol is not None:
            return enum_members(symbol)
    return []


def _architectures(source: Source) -> Iterable[str]:
    """The keys of the model registry's tables, e.g. ``_TEXT_GENERATION_MODELS``."""
    module = source.module("vllm.model_executor.models.registry")
    names: list[str] = []
    for name, node in module.bindings.items() if module else ():
        if name.endswith("_MODELS") and "PREVIOUSLY" not in name:
            names += _dict_keys(node)
    return names


def reasoning_parsers(source: Source) -> Iterable[str]:
    return _parsers(source, *_PARSERS["reasoning_parser"])


def _parsers(source: Source, packages: tuple[str, ...], table: str) -> list[str]:
    """A table of lazily loaded parsers (0.11.1 on), else the names that decorators register (0.11.0)."""
    for package in packages:
        module = source.module(package)
        if module is None:
            continue
        if table in module.bindings:
            return _dict_keys(module.bindings[table])
        return [name for sibling in source.siblings(package) for name in _registered(sibling)]
    return []


def _registered(module: Module) -> Iterable[str]:
    """``@XManager.register_module("name")`` and ``register_module(["a", "b"])``, also as plain calls."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call) and dotted(node.func).endswith("Manager.register_module"):
            given = [*node.args[:1], *(keyword.value for keyword in node.keywords if keyword.arg == "name")]
            for name in given:
                items = name.elts if isinstance(name, ast.List | ast.Tuple) else [name]
                yield from filter(None, map(_text, items))


def _dict_keys(node: ast.AST) -> list[str]:
    keys = node.keys if isinstance(node, ast.Dict) else []
    return [text for key in keys if (text := _text(key))]


def read_variables(source: Source) -> list[Variable]:
    """The keys of `vllm.envs.environment_variables` that begin with ``VLLM_``."""
    module = source.module("vllm.envs")
    table = module.bindings.get("environment_variables") if module else None
    if module is None or not isinstance(table, ast.Dict):
        return []
    annotated = {
        node.target.id: node
        for node in ast.walk(module.tree)
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }
    replaced = _replaced_variables(source)
    variables = []
    for key, reader in zip(table.keys, table.values, strict=True):
        name = _text(key)
        if name.startswith("VLLM_"):
            variable = _variable(name, reader, annotated.get(name))
            variables.append(replace(variable, deprecated=variable.deprecated or replaced.get(name, "")))
    return variables


def _variable(name: str, reader: ast.expr, declared: ast.AnnAssign | None) -> Variable:
    choices: tuple[str, ...] = ()
    folded, deprecated = False, ""
    for call in (node for node in ast.walk(reader) if isinstance(node, ast.Call)):
        function = dotted(call.func)
        if function in _VALIDATING and len(call.args) > 2 and isinstance(call.args[2], ast.List):
            choices = tuple(_text(item) for item in call.args[2].elts)
            folded = any(word.arg == "case_sensitive" and not _truth(word.value) for word in call.keywords)
        elif function == "deprecated_env":
            deprecated = f"will be removed in {_text(call.args[1])}. {_text(call.args[2])}"
    annotation = ast.unparse(declared.annotation) if declared else ""
    default = declared.value.value if declared and isinstance(declared.value, ast.Constant) else None
    known = default if isinstance(default, str | int | float) and default != "" else None
    return Variable(name, annotation, choices, folded, known, deprecated)


def _replaced_variables(source: Source) -> dict[str, str]:
    """Variables that a configuration field replaces: ``_set_from_env_if_set("backend", "VLLM_...")`` warns (0.13)."""
    replaced = {}
    for config in ("attention", "profiler"):
        module = source.module(f"vllm.config.{config}")
        for node in ast.walk(module.tree) if module else ():
            if isinstance(node, ast.Call) and dotted(node.func).endswith("_from_env_if_set") and len(node.args) > 1:
                replaced[_text(node.args[1])] = f"Use --{config}-config.{_text(node.args[0])}."
    return replaced


def _text(node: ast.expr | None) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _truth(node: ast.expr) -> bool:
    return bool(node.value) if isinstance(node, ast.Constant) else True
