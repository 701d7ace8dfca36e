# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""gb10.fleet for agents: an MCP server over stdio. Its tools look at a fleet; one proposes a change to a person.

No tool runs a change. What an agent writes reaches a command line only as a plain name. A proposal is data: a template
in it, which Ansible would run on this machine, is refused. The server reads and writes the inventory's folder alone.
"""

from __future__ import annotations

import difflib
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import gb10
import yaml

try:
    from mcp.server import MCPServer
    from mcp.server.mcpserver.exceptions import ToolError
    from mcp_types import ToolAnnotations
    from pydantic import Field
except ImportError:
    sys.exit("gb10-mcp needs the package mcp: pipx inject gb10-fleet 'mcp>=2,<3'")

LIMIT_S = 1800
# An agent reads all of it: the end of a screen has what matters.
MOST_LINES = 400
MOST_BYTES = 256_000
_STATE = ".fleet"
# Beside hosts.yml, and no source of hosts.
_NO_HOSTS = r"^(recipes|secrets)$"
# Where a proposal may go: data that no plugin of Ansible's takes as its own configuration.
_OPEN = re.compile(r"hosts\.yml|(group_vars|host_vars|recipes)/[\w./-]+\.ya?ml")
_SECRET = re.compile(r"(?im)^(\s*[\w-]*(?:pass|password|token|secret|api_key)\s*:[ \t]*)(?!!vault)(\S.*)$")
_MASK = "(not shown)"
_LOOKS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
# A plain name: no pattern of Ansible's, no option, no template.
Name = Annotated[str, Field(pattern=r"^([A-Za-z0-9_][A-Za-z0-9_.-]{0,252})?$")]
Rule = Annotated[str, Field(pattern=r"^[a-z0-9-]{1,80}$")]

server = MCPServer(
    "gb10-fleet",
    instructions="Looks at a fleet of DGX Spark hosts. No tool changes it: propose writes a diff for a person, who "
    "reads it, applies it with `git apply`, and runs site.yml.",
)


class RefusedError(ToolError):
    """Why a tool does nothing: one sentence with what to do."""


class _Loader(yaml.SafeLoader):
    """YAML with Ansible's tags, such as !vault, as plain text."""


_Loader.add_multi_constructor("!", lambda loader, _tag, node: getattr(node, "value", "") and str(node.value))


@server.tool(annotations=_LOOKS)
def plan(explain: Name = "") -> str:
    """What would run on each host, whether it fits, and what is wrong. explain: a service whose values are shown."""
    return _run("plan", _inventory(), _option("explain", explain))


@server.tool(annotations=_LOOKS)
def status(service: Name = "", host: Name = "") -> str:
    """How each service does now."""
    return _run("status", _inventory(), _option("service", service), _limit(host))


@server.tool(annotations=_LOOKS)
def drift(host: Name = "") -> str:
    """What is not as declared."""
    return _run("drift", _inventory(), _limit(host))


@server.tool(annotations=_LOOKS)
def doctor(host: Name = "") -> str:
    """What of the machines is in the way, and their illnesses."""
    return _run("doctor", _inventory(), _limit(host))


@server.tool(annotations=_LOOKS)
def why(service: Name) -> str:
    """Why a service is slow: one sentence with the number."""
    return _run("why", _inventory(), _option("service", service))


@server.tool(annotations=_LOOKS)
def explain(rule: Rule) -> str:
    """What a finding's rule means: its rows of the reference. rule: the name in brackets at a finding's end."""
    pages = [_documents() / name for name in ("findings.md", "rules.md")]
    rows = [line for page in pages for line in page.read_text("utf-8").splitlines() if _is_row_of(rule, line)]
    if not rows:
        raise RefusedError(f"the reference has no row of {rule}; the finding with this name says all that is known")
    return "\n".join(["rule | found | expected | remedy, or check | severity | meaning", *rows])


@server.tool(annotations=_LOOKS)
def inventory() -> str:
    """The inventory's files of YAML with their text, without passwords and tokens."""
    folder = _inventory()
    return "\n".join(f"--- {path.relative_to(folder)}\n{_masked(path.read_text('utf-8'))}" for path in _files(folder))


@server.tool(annotations=ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=False))
def propose(file: str, text: str, reason: str) -> str:
    """Propose the whole new text of one YAML file of the inventory. Nothing is changed: the answer has the diff, where
    it was kept for a person, and the plan as it would be. reason: one sentence for that person."""
    folder = _inventory()
    path = _proposed(folder, file, text)
    _refuse_a_plugin(text, file)
    before = path.read_text("utf-8") if path.is_file() else ""
    if {*_templates(text, file)} - {*_templates(before, file)}:
        raise RefusedError(f"{file} would have a new template ({{{{ or {{%), which runs here; write the value itself")
    old = before.splitlines(keepends=True)
    name = path.relative_to(folder).as_posix()
    diff = "".join(difflib.unified_diff(old, text.splitlines(keepends=True), f"a/{name}", f"b/{name}"))
    if not diff:
        raise RefusedError(f"{name} has this text already")
    with tempfile.TemporaryDirectory(prefix="gb10-proposed-") as scratch:
        copy = Path(scratch) / folder.name
        shutil.copytree(folder, copy, symlinks=True)
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        (copy / name).write_text(text, "utf-8")
        shown = _run("plan", copy)
    kept = folder / _STATE / "proposed" / f"{hashlib.sha256(diff.encode()).hexdigest()[:12]}.diff"
    kept.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    kept.write_text(f"{' '.join(reason.split())[:400]}\n\n{diff}", "utf-8")
    apply = f"cd {folder} && git apply {kept.relative_to(folder)}"
    return f"{_masked(diff)}\nNothing was changed. A person applies it: {apply}\n\nThe plan as it would be:\n{shown}"


def _proposed(folder: Path, file: str, text: str) -> Path:
    """Where the text belongs, below the inventory's folder."""
    path = (folder / file).resolve()
    name = path.relative_to(folder).as_posix() if path.is_relative_to(folder) else ""
    if not _OPEN.fullmatch(name):
        raise RefusedError(f"found {file!a}; expected hosts.yml, or a file of YAML in group_vars, host_vars or recipes")
    if _MASK in text:
        raise RefusedError(f"{file} has a secret that is not shown here; a person has to change this file")
    if len(text.encode()) > MOST_BYTES:
        raise RefusedError(f"found {len(text.encode())} bytes; expected at most {MOST_BYTES}")
    return path


def _loaded(text: str, file: str) -> list[Any]:
    try:
        return [*yaml.load_all(text, _Loader)]
    except (yaml.YAMLError, ValueError, RecursionError) as problem:
        raise RefusedError(f"{file} is no YAML: {' '.join(str(problem).split())[:300]}") from None


def _refuse_a_plugin(text: str, file: str) -> None:
    """Ansible loads the inventory plugin that such a file names, and its expressions run without braces."""
    for part in _loaded(text, file):
        if part is not None and not isinstance(part, dict):
            raise RefusedError(f"{file} would be no map of keys and values; expected one, without a tag")
        if part and "plugin" in part:
            raise RefusedError(f"{file} would name a plugin of Ansible's, which runs here; a person has to write it")


def _templates(text: str, file: str) -> Iterator[str]:
    """All texts that Ansible would take as templates, however YAML writes their braces."""
    left, seen = _loaded(text, file), set()
    while left:
        part = left.pop()
        if isinstance(part, str):
            yield from [part] if re.search(r"\{[{%#]", part) else []
        elif isinstance(part, (dict, list)) and id(part) not in seen:
            seen.add(id(part))
            left += [*part.keys(), *part.values()] if isinstance(part, dict) else part


def _masked(text: str) -> str:
    return _SECRET.sub(rf"\1{_MASK}", text)


def _inventory() -> Path:
    given = os.environ.get("GB10_INVENTORY", "mine")
    folder = Path(given).expanduser().resolve()
    if not (folder / "hosts.yml").is_file():
        raise RefusedError(f"no inventory is at {folder}; set GB10_INVENTORY to its folder where you start gb10-mcp")
    return folder


def _files(folder: Path) -> list[Path]:
    found = (path for path in sorted(folder.rglob("*.y*ml")) if path.resolve().is_relative_to(folder))
    return [path for path in found if path.is_file() and _STATE not in path.relative_to(folder).parts]


def _documents() -> Path:
    """docs/reference of a checkout, or of the collection that `gb10` finds."""
    roots = [root for root in (Path(__file__).resolve().parents[1], gb10.collection()) if root]
    return next(root / "docs/reference" for root in roots if (root / "docs/reference/findings.md").is_file())


def _is_row_of(rule: str, line: str) -> bool:
    return re.match(rf"\| `?{re.escape(rule)}`? \|", line) is not None


def _option(name: str, value: str) -> list[str]:
    return ["-e", f"{name}={value}"] if value else []


def _limit(host: str) -> list[str]:
    return ["-l", host] if host else []


def _run(playbook: str, folder: Path, *options: Sequence[str]) -> str:
    words = ["-i", str(folder), f"gb10.fleet.{playbook}", *(word for option in options for word in option)]
    command = [sys.executable, "-m", "ansible", "playbook", *words]
    try:
        ended = subprocess.run(
            command,
            check=False,
            cwd=folder.parent,
            env={**os.environ, **gb10.screen(), "ANSIBLE_NOCOLOR": "1", "ANSIBLE_INVENTORY_IGNORE_REGEX": _NO_HOSTS},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=LIMIT_S,
        )
    except subprocess.TimeoutExpired:
        raise RefusedError(f"gb10.fleet.{playbook} did not end within {LIMIT_S} s; look at the hosts by hand") from None
    lines = ended.stdout.decode("utf-8", "replace").splitlines()
    left = [f"({len(lines) - MOST_LINES} lines left out)"] if len(lines) > MOST_LINES else []
    return "\n".join([*left, *lines[-MOST_LINES:], f"exit code {ended.returncode}"])


def main() -> None:
    server.run()


if __name__ == "__main__":
    main()
