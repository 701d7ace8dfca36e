# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The commands of the sources through the linter, each with its image's vLLM: a table of what must be found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._base.yaml_text import read_yaml
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.lint.judge import lint_map
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.text.docker_command import (
    split_docker_command,
    words_of,
)

DATA = Path(__file__).resolve().parents[1] / "data" / "source_commands.yml"
ROWS: dict[str, dict[str, Any]] = {row["id"]: row for row in read_yaml(DATA.read_text("utf-8"))}
SEVERITIES = ("error", "warning", "hint")


def launch_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """What the linter gets for a row: the base's launch, changed as the row says."""
    launch = launch_of(ROWS[row["base"]]) if "base" in row else _written(row)
    argv = [*words_of(row.get("prepend", "")), *launch.get("argv", []), *words_of(row.get("add", ""))]
    launch["argv"] = _without(argv, row.get("drop", "").split(), keep=len(words_of(row.get("add", ""))))
    launch["env"] = {**launch.get("env", {}), **row.get("env", {})}
    launch |= {key: row[key] for key in ("image", "group", "model", "mounts") if key in row}
    return launch | ({"vllm_version": row["vllm"]} if "vllm" in row else {})


def _written(row: Mapping[str, Any]) -> dict[str, Any]:
    if "command" not in row:
        return {"argv": words_of(row["words"])}
    taken = split_docker_command(row["command"])
    mounts = [{"source": bind.source, "target": bind.target, "read_only": bind.read_only} for bind in taken.mounts]
    container = {name: list(values) for name, values in taken.options.items()}
    found = {"argv": list(taken.argv), "env": taken.env, "image": taken.image, "mounts": mounts, "container": container}
    return {**found, "entrypoint": taken.entrypoint}


def _without(argv: list[str], dropped: Sequence[str], keep: int) -> list[str]:
    """argv without options and their value; what was added stays."""
    own, added = argv[: len(argv) - keep], argv[len(argv) - keep :]
    for option in dropped:
        at = own.index(option)
        del own[at : at + 2]
    return [*own, *added]


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_findings(row: Mapping[str, Any]) -> None:
    findings = lint_map(launch_of(row))
    found = {severity: [item["rule"] for item in findings if item["severity"] == severity] for severity in SEVERITIES}
    assert found == {severity: row[severity] for severity in SEVERITIES}


@pytest.mark.parametrize("row", [row for row in ROWS.values() if "command" in row], ids=lambda row: str(row["id"]))
def test_docker_text_is_taken_as_it_is(row: Mapping[str, Any]) -> None:
    """The door takes the text itself: the same findings as for its parts."""
    parts = launch_of(row)
    known = {key: parts[key] for key in ("vllm_version", "model") if key in parts}
    assert lint_map({"command": row["command"], **known}) == lint_map(parts)
