# SPDX-License-Identifier: GPL-3.0-or-later
"""One way to write an engine's options, whichever way they were written.

vLLM takes ``--speculative-config '{"method": "mtp"}'``, ``--speculative_config.method mtp`` and a mix of underscores
and dashes for the same option (vllm/utils/argparse_utils.py, FlexibleArgumentParser, 0.33.0). The plan reads only the
normal form: names with dashes, one map for an option with parts. Everything behind the first dot keeps its spelling.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .._base import worded
from .._base.findings import Finding
from .._base.place import Place

# vLLM reads such numbers inside JSON since 0.20: 80m, 2.5G. Quoted text stays as it is.
_BARE_SIZE = re.compile(r'("(?:[^"\\]|\\.)*")|\b(\d+(?:\.\d+)?)([kKmMgGtT])\b')


# vLLM's short options for keys of this map (vllm/engine/arg_utils.py, create_speculative_config, since 0.22.0), whose
# own keys may have dashes too.
_SPECULATION = "speculative-config"
_SHORT = {"spec-method": "method", "spec-model": "model", "spec-tokens": "num_speculative_tokens"}
# Its other names for an option (vllm/engine/arg_utils.py of 0.31.0 and later).
_OTHER_NAMES = {"device-memory-utilization": "gpu-memory-utilization"}


def normal_name(name: str) -> str:
    """The option that a key belongs to: ``speculative_config.method`` is a part of ``speculative-config``."""
    option = name.partition(".")[0].replace("_", "-")
    return _SPECULATION if option in _SHORT else _OTHER_NAMES.get(option, option)


def normal_options(written: Mapping[str, object], place: Place) -> tuple[dict[str, Any], list[Finding]]:
    """Options in their normal form, and a finding for each that is written twice with different words.

    written: options by name, as a person or an importer wrote them. place: of the map, for the findings.
    A null beside parts is no conflict: it removes what a lower layer set, and the parts make the new value.
    """
    spellings: dict[str, list[str]] = {}
    for name in written:
        spellings.setdefault(normal_name(name), []).append(name)
    options: dict[str, Any] = {}
    findings: list[Finding] = []
    for name, keys in spellings.items():
        options[name], conflict = _value_of(keys, written)
        findings += _written_twice(name, conflict, place) if conflict else []
    return options, findings


def normal_reasons(reasons: Mapping[str, str], options: Mapping[str, object]) -> dict[str, str]:
    """Reasons by the normal names of their options; several for one option become one text."""
    normal: dict[str, str] = {}
    for key, reason in reasons.items():
        name = normal_name(key) if normal_name(key) in options else key
        normal[name] = f"{normal[name]}; {reason}" if name in normal else reason
    return normal


def json_map(text: str) -> dict[str, Any] | None:
    """The map that a JSON text holds, with numbers such as 80m written out; None if it holds none, or a key twice."""
    if not text.lstrip().startswith("{"):
        return None
    try:
        value = json.loads(_BARE_SIZE.sub(_written_out, text), object_pairs_hook=_each_once)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _written_out(match: re.Match[str]) -> str:
    if match[1]:
        return match[1]
    base = 1000 if match[3].islower() else 1024
    return str(int(float(match[2]) * base ** ("kmgt".index(match[3].lower()) + 1)))


def _each_once(pairs: Sequence[tuple[str, object]]) -> dict[str, Any]:
    if len({key for key, _ in pairs}) < len(pairs):
        raise ValueError("a key is written twice")
    return dict(pairs)


def _value_of(keys: list[str], written: Mapping[str, object]) -> tuple[Any, list[str]]:
    """The value that all spellings of an option come to, and the spellings that contradict each other."""
    whole = [key for key in keys if not _path(key)]
    parts = [key for key in keys if _path(key)]
    values = [_whole(written[key]) for key in whole if written[key] is not None or not parts]
    if normal_name(keys[0]) == _SPECULATION:
        values = [
            {str(key).replace("-", "_"): item for key, item in value.items()} if isinstance(value, Mapping) else value
            for value in values
        ]
    if len(values) > 1 and any(value != values[0] for value in values):
        return values[0], whole
    if not parts:
        return values[0], []
    if values and not isinstance(values[0], Mapping):
        return values[0], keys[:2]
    value = _copy(values[0]) if values else {}
    for key in parts:
        if not _set(value, _path(key), _part(written[key])):
            return value, [*whole[:1], *parts][:4]
    return value, []


def _path(name: str) -> list[str]:
    """The keys below its option that a name leads to."""
    option, *path = name.split(".")
    if short := _SHORT.get(option.replace("_", "-")):
        return [short, *path]
    return [path[0].replace("-", "_"), *path[1:]] if path and normal_name(name) == _SPECULATION else path


def _whole(value: object) -> Any:
    made = json_map(value) if isinstance(value, str) else None
    return value if made is None else made


def _part(value: object) -> Any:
    """A part's text as vLLM takes it: JSON where it is JSON, else the text."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return _whole(value)


def _copy(value: Mapping[str, object]) -> dict[str, Any]:
    return {key: _copy(item) if isinstance(item, Mapping) else item for key, item in value.items()}


def _set(target: dict[str, Any], path: Sequence[str], value: Any) -> bool:
    """Put a part into a map; False where something else is there. A name that ends in + adds to a list."""
    for key in path[:-1]:
        target = target.setdefault(key, {})
        if not isinstance(target, dict):
            return False
    last = path[-1].removesuffix("+")
    if last != path[-1]:
        more = value if isinstance(value, list) else [value]
        target[last] = [*target.get(last, []), *more] if isinstance(target.get(last, []), list) else more
        return True
    return bool(target.setdefault(last, value) == value)


def _written_twice(name: str, keys: Sequence[str], place: Place) -> Iterator[Finding]:
    yield worded.error("option-written-twice", place.below(name), keys=" and ".join(dict.fromkeys(keys)), name=name)
