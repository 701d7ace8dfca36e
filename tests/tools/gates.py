# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the parts of the test suite one by one, fast ones first, and ends with a table of their results.

A part is a list of commands; all of them run, and one that fails makes it fail. A command that can't run here exits
with 77 after a last line that says why: the part is skipped, which counts as failed where CI is set in the environment.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from subprocess import PIPE, STDOUT, Popen
from typing import Literal

ROOT = Path(__file__).resolve().parents[2]
BIN = ROOT / ".venv" / "bin"
SKIP = 77
COLLECTION = "ansible_collections.gb10.fleet.plugins"

Command = Sequence[str]
Outcome = Literal["passed", "failed", "skipped"]

PYTHON = str(BIN / "python")
COLOUR = sys.stdout.isatty()
PYTEST = (PYTHON, "-m", "pytest", f"--color={'yes' if COLOUR else 'no'}")
RUFF = ("ruff", "check", ".")
YAMLLINT = ("yamllint", "--strict", ".")
UNIT = (*PYTEST, "tests/unit")
LAB_DEPS = ("tests/lab/lab", "deps")
ANSIBLE_LINT = ("ansible-lint", "--offline", "--strict")
DOCS = ("antsibull-docs", "lint-collection-docs", "--plugin-docs", "--skip-rstcheck", ".")


@dataclass(frozen=True)
class Part:
    """One named part. optional: there are machines that we support where it can't run."""

    summary: str
    commands: tuple[Command, ...]
    optional: bool = False
    needs_root: bool = False


PARTS = {
    "lint": Part("ruff, yamllint, ansible-lint (production)", (RUFF, YAMLLINT, ANSIBLE_LINT)),
    "types": Part(
        "mypy --strict over all plugins, and over the lab",
        (("mypy", "-p", COLLECTION), ("mypy", "tests/lab", "tests/tools")),
    ),
    "unit": Part("tables and properties, on the oldest ansible-core that we support", (UNIT,)),
    "docs": Part("the documentation of plugins and roles", (DOCS,)),
    "changelog": Part("every fragment and CHANGELOG", (("antsibull-changelog", "lint"),)),
    "newest": Part(
        "unit tests and plan.yml on the newest ansible-core", ((PYTHON, "tests/tools/newest.py"),), optional=True
    ),
    "sanity": Part("ansible-test sanity on the built and installed artifact", ((PYTHON, "tests/tools/sanity.py"),)),
    "lab": Part("the lab: cables, power, nothing left behind", (LAB_DEPS, (*PYTEST, "tests/lab")), needs_root=True),
    "cluster": Part(
        "a group of two hosts heals itself; all of it: pytest tests/cluster --whole",
        (LAB_DEPS, (*PYTEST, "tests/cluster")),
        needs_root=True,
    ),
    "molecule": Part(
        "each role on lab hosts: check, converge, idempotence, verify",
        (LAB_DEPS, (PYTHON, "tests/tools/scenarios.py")),
        needs_root=True,
    ),
}
QUICK = Part(
    "what a developer runs after each edit: ruff, yamllint, unit", (RUFF, YAMLLINT, (*UNIT, "--numprocesses=2"))
)


@dataclass(frozen=True)
class Result:
    part: str
    outcome: Outcome
    seconds: float
    note: str
    passed: int
    failed: int


def counted(line: str) -> tuple[int, int]:
    """Tests passed and failed by the closing line of one pytest run; (0, 0) for any other line."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", line)
    if not re.search(r"\b(passed|failed|errors?|skipped)\b.* in [0-9.]+s", plain):
        return 0, 0
    counts = {word.rstrip("s"): int(number) for number, word in re.findall(r"(\d+) (passed|failed|errors?)", plain)}
    return counts.get("passed", 0), counts.get("failed", 0) + counts.get("error", 0)


def run(name: str, part: Part) -> Result:
    """Runs one part's commands with their output on the terminal."""
    start = time.monotonic()
    passed = failed = 0
    skipped_because = ""
    print(f"\n===== {name}: {part.summary}", flush=True)
    if part.needs_root and os.geteuid() != 0:
        return Result(name, "skipped", 0.0, "it makes user, mount and network namespaces, which needs root", 0, 0)
    for command in part.commands:
        good, bad, skip = run_command(command)
        passed, failed, skipped_because = passed + good, failed + bad, skipped_because or skip
    outcome: Outcome = "failed" if failed else "skipped" if skipped_because else "passed"
    return Result(name, outcome, time.monotonic() - start, skipped_because, passed, failed)


def run_command(command: Command) -> tuple[int, int, str]:
    """Tests passed, tests failed, why the command couldn't run if so. A tool that counts no tests counts one."""
    environment = os.environ | {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", "PYTHONUNBUFFERED": "1"}
    environment |= {} if COLOUR else {"NO_COLOR": "1"}
    passed = failed = 0
    last = ""
    process = Popen(command, cwd=ROOT, env=environment, text=True, errors="replace", stdout=PIPE, stderr=STDOUT)
    with process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            last = line.strip() or last
            good, bad = counted(line)
            passed, failed = passed + good, failed + bad
    if process.returncode == SKIP:
        return passed, failed, last
    if process.returncode and not failed:
        return passed, 1, ""
    return max(passed, 1), failed, ""


def table(results: Sequence[Result]) -> str:
    rows = [
        f"{r.part:<12}{r.outcome:<10}{r.seconds:7.1f} s" + (f"  because {r.note}" if r.note else "") for r in results
    ]
    return "\n".join([f"{'part':<12}{'result':<10}{'time':>9}", *rows])


def is_failure(result: Result, in_ci: bool) -> bool:
    return result.outcome == "failed" or (result.outcome == "skipped" and in_ci and not PARTS[result.part].optional)


def main() -> int:
    every = {"quick": QUICK, **PARTS}
    parser = argparse.ArgumentParser(
        prog="./test",
        description=__doc__,
        epilog="parts:\n" + "\n".join(f"  {name:<12}{part.summary}" for name, part in every.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("parts", nargs="*", metavar="part", choices=[*every, []], help="all but quick if none is named")
    names = parser.parse_args().parts or list(PARTS)

    results = [run(name, every[name]) for name in names]
    failures = [result.part for result in results if is_failure(result, "CI" in os.environ)]
    print(f"\n{table(results)}\n")
    if failures:
        print(f"failed: {', '.join(failures)}; run one alone with ./test {failures[0]}")
    print(f"{sum(r.passed for r in results)} passed, {sum(r.failed for r in results)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
