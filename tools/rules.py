# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes ``docs/reference/rules.md`` from the table of rules.

python tools/rules.py                    writes it
python tools/rules.py --check            says whether it is up to date
python tools/rules.py --oldest           the twenty rules and rows that refuse by the oldest proofs
python tools/rules.py --read VLLM 0.33.0 whether an unpacked release refuses where the proofs of that release say so
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "collections"), str(ROOT / "tests" / "unit")]

from ansible_collections.gb10.fleet.plugins.module_utils._base.proofs import proofs  # noqa: E402
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.catalogue.version import parse_range  # noqa: E402
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.lint.against_catalogue import Name, misleading  # noqa: E402
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.rules import RULES, Rule  # noqa: E402
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.rules._base import LASTS  # noqa: E402
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.system.known_bad import known_bad  # noqa: E402
from rule_needs import FACTS, checked_by  # noqa: E402
from rule_sources import NOT_CHECKABLE, SAME_AS  # noqa: E402

DOCUMENT = ROOT / "docs" / "reference" / "rules.md"
# The chapters of the document, by the rules' areas.
AREAS = {
    "image": "Rules on the image: its entrypoint, its build, what is installed in it.",
    "releases": "Rules on the first release in which a model, a speculative method or a loader works.",
    "names": "Rules on names: options, variables and parsers that a release doesn't have, or that don't fit the model.",
    "kernels": "Rules on quantization and kernels: what runs on sm_121, and since when.",
    "kv": "Rules on the KV cache's type and on speculative decoding.",
    "prefix": "Rules on prefix caching, which hybrid models treat differently by release.",
    "memory": "Rules on memory: one pool for CPU and GPU.",
    "loading": "Rules on loading weights, whose peaks come from the same memory.",
    "model": "Rules on the model's configuration: context, parallel size, modalities.",
    "storage": "Rules on storage, caches and start-up.",
    "group": "Rules on services over several hosts.",
    "access": "Rules on who reaches the endpoint, and what the endpoint reaches for them.",
    "late": "vLLM itself refuses these, but late: after configuration, weights or profiling. The plan knows before.\n"
    "\n"
    "X: read from the releases' sources. K: checks of the KV cache's start-up. L: from the recipes of other projects.",
}
HEAD = """\
# Rules

Made by `python tools/rules.py` from `plugins/module_utils/_engines/vllm/rules/`; change it there. The linter
(`gb10.fleet.vllm_lint`) and the plan check these rules for a launch. They also check its names and values, which the
catalogue of the image's vLLM knows. A rule that lacks a fact stays silent. On a build between two releases, a rule for
only one of them is a warning. [sources.md](sources.md) explains the sources.

A service silences a rule by its id with a reason (`silence: {R043: the reasoning is wanted}`). Its findings are then
marked, as hints.

The module `vllm_lint` checks every rule for which it has the facts. The column "checked by" names the other checks:

- `plan`: every plan also checks it.
- `preflight`: `site.yml` checks it before its first change, with its reading of the host.
- `vllm_lint only`: a plan never writes such a launch or doesn't have the fact. The rule is for commands of others.

A rule that refuses has a proof, with its month: the place where vLLM itself refuses, a measurement, or a publisher's
statement (`data/proofs.yml`). A newer dated report that contradicts it, there or as the `status` of the unchanged
recipe, makes it a warning.

A rule ends with a release, or the column "severity" gives the reason in brackets:

{LASTS}
"""
COLUMNS = """\
| id | severity | what | expected, remedy | reason | checked by | source | refuses by |
|---|---|---|---|---|---|---|---|"""
NAMES = """\
Options and variables that mislead, made from `data/vllm_names.yml`. They replace the catalogue's findings."""
FACTS_HEAD = """\
Facts that rules need beside the command, the image and the model. `mounts` and `container` are read from the command.
"""
CHECKS = """\
## Catalogue

| check | severity | meaning |
|---|---|---|
| catalogue-unknown-option | error | the release has no such option; names the releases with it, and the likely option |
| catalogue-unknown-variable | error | the same for `VLLM_*`, which vLLM ignores, without a word before 0.17.0 |
| catalogue-unknown-name | error | a parser, method, backend or load format that the release lacks |
| catalogue-unknown-key | error | a key of a JSON option that vLLM refuses; a warning if vLLM drops it silently |
| catalogue-wrong-value | error | not of the option's or variable's type, or none of its choices |
| catalogue-missing-value | error | an option without its value |
| catalogue-unexpected-value | error | a switch with a value |
| catalogue-not-negatable | error | a `--no-` form that doesn't exist |
| catalogue-ambiguous-option | error | the beginning of several options |
| catalogue-surplus-word | error | words that belong to no option |
| catalogue-no-model, catalogue-model-word | error | no model, or one where vLLM doesn't look |
| catalogue-model-option | warning | `--model` after `vllm serve`; an error in 0.11.0 |
| catalogue-deprecated-option, -variable, -entry | warning | deprecated by the release itself |
| catalogue-abbreviated-option, catalogue-duplicate-option | warning | accepted, and a trap |
| catalogue-newer-version, catalogue-older-version | warning | not catalogued: checked against the nearest release |
| catalogue-between-releases | hint | a build between two releases: checked against both |

In other images (eugr, custom), names that a release lacks are warnings, since the build may add them. Read its own
source with `gb10.fleet.vllm_catalogue_info`.
"""


def document() -> str:
    names = "\n".join(map(_name_row, misleading()))
    head = HEAD.replace("{LASTS}", "\n".join(f"- *{name}*: {why}" for name, why in LASTS.items()))
    parts = [head, CHECKS, f"## Misleading names\n\n{NAMES}\n\n{COLUMNS}\n{names}\n"]
    for area, what in AREAS.items():
        rows = "\n".join(_row(rule) for rule in sorted(RULES.values(), key=_by_number) if rule.area == area)
        parts.append(f"## {area.capitalize()}\n\n{what}\n\n{COLUMNS}\n{rows}\n")
    parts.append(_facts())
    parts.append(_list("Not checked", NOT_CHECKABLE))
    parts.append(_list("Said by another rule", {identity: f"{other}." for identity, other in SAME_AS.items()}))
    return "\n".join(parts)


def _by_number(rule: Rule) -> tuple[bool, str, int]:
    """R first, and each letter by its numbers."""
    return rule.identity[0] != "R", rule.identity[0], int(rule.identity[1:])


def _row(rule: Rule) -> str:
    checker = checked_by(rule.needs)
    return _cells(
        rule.identity,
        "<br>".join(_severities(rule)),
        rule.summary,
        f"{rule.expected}; {rule.remedy}",
        rule.reason,
        checker if checker != "vllm_lint" else "vllm_lint only",
        rule.source,
        _proof(rule.identity),
    )


def _name_row(row: Name) -> str:
    names = "; ".join(f"{name}: {instead}" for name, instead in row.names.items())
    severity = row.severity + (f", {row.releases.words()}" if row.releases else "")
    return _cells(row.id, severity, row.what, f"{names}; {row.remedy}", row.reason, "plan", row.source, _proof(row.id))


def _proof(identity: str) -> str:
    proof = proofs().get(identity)
    return f"{proof['since']}: {proof['proof']}" if proof else ""


def _cells(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _severities(rule: Rule) -> Iterator[str]:
    for text, severity in rule.severities.items():
        last = f" ({rule.lasts})" if text.endswith("..") else ""
        yield (severity if text == ".." else f"{severity}, {parse_range(text).words()}") + last


def _facts() -> str:
    rows = [_cells(f"`{name}`", fact.by, fact.what) for name, fact in FACTS.items()]
    return "\n".join(["## Facts\n", FACTS_HEAD, "| fact | had first by | what |\n|---|---|---|", *rows, ""])


def _list(title: str, rows: dict[str, str]) -> str:
    return f"## {title}\n\n" + "\n".join(f"- **{identity}** {text}" for identity, text in rows.items()) + "\n"


def oldest(number: int = 20) -> list[str]:
    """What to look at next: by the month of the newest proof."""
    rows = {**{row["id"]: row for row in known_bad()}, **proofs()}
    aged = sorted((row["since"], identity, row.get("proof", row.get("source"))) for identity, row in rows.items())
    return [f"{since}  {identity:30} {proof}" for since, identity, proof in aged[:number]]


def unread(folder: Path, release: str) -> list[str]:
    """Proofs of a release at whose line it does not refuse. folder: that of its package vllm."""
    gone = []
    for identity, proof in proofs().items():
        place = re.fullmatch(r"([\w/]+\.py):(\d+) of ([\d.]+)", proof["proof"])
        if place and place[3] == release:
            line = (folder / place[1]).read_text("utf-8").splitlines()[int(place[2]) - 1]
            if not re.search(r"raise|assert|error_response", line):
                gone.append(f"{identity}: {place[0]}: {line.strip()}")
    return gone


def main() -> int:
    if sys.argv[1:] == ["--oldest"]:
        print("\n".join(oldest()))
        return 0
    if sys.argv[1:2] == ["--read"]:
        gone = unread(Path(sys.argv[2]), sys.argv[3])
        print("\n".join(gone) or "each proof of this release is where it says")
        return int(bool(gone))
    text = document()
    if sys.argv[1:] == ["--check"]:
        current = DOCUMENT.read_text("utf-8") if DOCUMENT.exists() else ""
        if current != text:
            print("docs/reference/rules.md is out of date: run `python tools/rules.py`", file=sys.stderr)
        return int(current != text)
    DOCUMENT.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
