# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the reference of keys, and the schema for editors, from data/forms/ and data/keys.yml.

python tools/keys.py            writes docs/reference/inventory.md, recipe-keys.md and data/inventory.schema.json
python tools/keys.py --check    fails if they are not up to date
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "collections")]

from ansible_collections.gb10.fleet.plugins.module_utils._base.schema import Spec, expectation  # noqa: E402
from ansible_collections.gb10.fleet.plugins.module_utils._plan.described import ANY, Key, described, inventory_spec  # noqa: E402

SCHEMA = "https://raw.githubusercontent.com/gb10-fleet/gb10.fleet/main/data/inventory.schema.json"
EDITORS = f"# yaml-language-server: $schema={SCHEMA}"
_HEAD = "<!-- made by tools/keys.py from data/forms/ and data/keys.yml; change it there -->"
_INVENTORY = f"""# Inventory

{_HEAD}

These variables describe your fleet. Write them into `group_vars/all/fleet.yml`, `fleet_host` also into `host_vars`.
`NAME` stands for a name that you choose. Every other variable that begins with `fleet_` is refused as a misspelling.

For the same facts on the screen, type `ansible-playbook gb10.fleet.explain -e key=fleet_gateway.queue`. The last part
of a path is enough (`-e key=queue`), and without a key you get the list of variables. For completion in an editor
with a YAML language server, begin the file with this line:

```yaml
{EDITORS}
```
"""
_RECIPE = f"""# Recipe keys

{_HEAD}

A recipe is a YAML file in the folder `recipes` beside your inventory. [Recipes](../how-to/recipes.md) shows how to
write one. `ansible-playbook gb10.fleet.explain -e key=recipe.flags` has the same facts on the screen.
"""
# An inventory may compute any value with Jinja.
_JINJA = {"type": "string", "pattern": r"\{\{"}
_JSON_TYPES = {
    "str": ["string"],
    "int": ["integer"],
    "count": ["integer", "string"],
    "bytes": ["integer", "string"],
    "number": ["number"],
    "bool": ["boolean"],
    "list": ["array"],
    "map": ["object"],
}
_NUMBERS = {"int": "a whole number", "number": "a number"}
_BOUNDS = {
    "int": ("minimum", "maximum"),
    "number": ("minimum", "maximum"),
    "str": ("minLength", "maxLength"),
    "list": ("minItems", "maxItems"),
    "map": ("minProperties", "maxProperties"),
}


def page(head: str, keys: Sequence[Key]) -> str:
    """head: the text before the tables. Each key without a dot begins a chapter."""
    return "\n".join([head.rstrip("\n"), *(line for key in keys for line in _lines(key))]) + "\n"


def _lines(key: Key) -> Iterator[str]:
    if "." not in key.path:
        yield from (
            "",
            f"## {key.path}",
            "",
            key.what,
            "",
            f"* Value: {_value(key.spec)}",
            f"* Default: {_default(key)}",
        )
        yield from (f"* Acts on: {key.acts}", f"* A change restarts: {key.restarts}")
        if "options" in key.spec or "values" in key.spec or "any_of" in key.spec:
            yield from ("", "| key | what | value | default | a change restarts |", "|---|---|---|---|---|")
        return
    path = key.path.partition(".")[2].removeprefix(f"{ANY}.")
    yield f"| `{path}` | {_cell(key.what)} | {_cell(_value(key.spec))} | {_default(key)} | {_cell(key.restarts)} |"


def _value(spec: Spec) -> str:
    """In words; a pattern is for programs, and stands in the schema."""
    if "expected" in spec or "any_of" in spec:
        return expectation(spec)
    if spec.get("type") in ("int", "number") and "choices" not in spec:
        return " ".join([_NUMBERS[spec["type"]], *_range(spec)])
    words = expectation({name: value for name, value in spec.items() if name not in ("pattern", "options")})  # type: ignore[arg-type]
    return words.replace(" of length at least 1", "")


def _range(spec: Spec) -> Iterator[str]:
    if "min" in spec and "max" in spec:
        yield f"from {spec['min']} to {spec['max']}"
    elif "min" in spec:
        yield f"from {spec['min']} on"
    if spec.get("nullable"):
        yield "or null"


def _default(key: Key) -> str:
    if key.spec.get("required"):
        return "required"
    default = key.spec.get("default")
    return "-" if default in (None, {}, []) else f"`{json.dumps(default)}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def schema() -> dict[str, Any]:
    """A JSON Schema of group_vars and host_vars. Variables without our prefix are not of our concern."""
    words = {path: key.what for path, key in described().items()}
    spec = inventory_spec()
    variables = {name: _json(each, name, words) for name, each in spec["options"].items()}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": SCHEMA,
        "title": "Variables of gb10.fleet in an inventory",
        "type": "object",
        "properties": variables,
        "patternProperties": {"^fleet_(?!plan_)": {}},
    }


def _json(spec: Spec, path: str, words: dict[str, str]) -> dict[str, Any]:
    what = {"description": words[path]} if words.get(path) else {}
    if "any_of" in spec:
        kinds = [
            _json(each, path, {name: text for name, text in words.items() if name != path}) for each in spec["any_of"]
        ]
        return {**what, "anyOf": [*kinds, _JINJA]}
    kind = spec.get("type", "any")
    if kind == "any":
        return what
    fits: dict[str, Any] = {"type": [*_JSON_TYPES[kind], *(["null"] if spec.get("nullable") else [])]}
    if "choices" in spec:
        fits["enum"] = [*spec["choices"], *([None] if spec.get("nullable") else [])]
    if "pattern" in spec:
        fits["pattern"] = f"^({spec['pattern']})$"
    for bound, name in zip(("min", "max"), _BOUNDS.get(kind, ()), strict=False):
        if bound in spec:
            fits[name] = spec[bound]  # type: ignore[literal-required]
    if "elements" in spec:
        fits["items"] = _json(spec["elements"], path, {name: text for name, text in words.items() if name != path})
    if "options" in spec:
        fits["properties"] = {name: _json(each, f"{path}.{name}", words) for name, each in spec["options"].items()}
        fits["additionalProperties"] = False
        needed = [name for name, each in spec["options"].items() if each.get("required")]
        fits |= {"required": needed} if needed else {}
    elif "values" in spec:
        fits["additionalProperties"] = _json(spec["values"], f"{path}.{ANY}", words)
    if "default" in spec and spec["default"] is not None:
        what["default"] = spec["default"]
    return {**what, "anyOf": [fits, _JINJA]}


def texts() -> dict[Path, str]:
    """Each file that this program writes."""
    keys = [*described().values()]
    of_recipes = [key for key in keys if key.path.partition(".")[0] in ("recipe", "build")]
    reference = ROOT / "docs" / "reference"
    return {
        reference / "inventory.md": page(_INVENTORY, [key for key in keys if key not in of_recipes]),
        reference / "recipe-keys.md": page(_RECIPE, of_recipes),
        ROOT / "data" / "inventory.schema.json": json.dumps(schema(), indent=1) + "\n",
    }


def main(arguments: Sequence[str]) -> int:
    outdated = {path: text for path, text in texts().items() if not path.exists() or path.read_text("utf-8") != text}
    if "--check" in arguments:
        for path in outdated:
            print(f"{path.relative_to(ROOT)} is out of date; run: python tools/keys.py", file=sys.stderr)
        return 1 if outdated else 0
    for path, text in outdated.items():
        path.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
