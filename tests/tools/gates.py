# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the parts of the test suite, three jobs at a time, more where processors are idle, and ends with a table.

A part is one job, or several that are independent of each other, as the molecule scenarios are. A job is a list of
commands; all of them run, and one that fails makes it fail. What a job says is printed as a whole when it ends; a job
that runs alone is heard at once. A command that can't run here exits with 77 after a last line that says why: the job
is skipped, which counts as failed where CI is set in the environment.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

ROOT = Path(__file__).resolve().parents[2]
BIN = ROOT / ".venv" / "bin"
SKIP = 77
COLLECTION = "ansible_collections.gb10.fleet.plugins"
# The machines that we test on have two cores. A job with a lab waits for its hosts half of the time. On 25 November
# 2026, with nothing beside them, three at a time took 1,652 s and left 18 % of the processors idle; four took 1,742 s
# and left 2 %, since each job then took a tenth to a fifth more of them.
AT_ONCE, AT_MOST = 3, 5
# One more than AT_ONCE starts when this share of the processors was idle for so long, and a lab finds this much memory.
IDLE_SHARE, LOOK_S, LAB_BYTES = 0.15, 10.0, 6 << 30
HEARTBEAT_S = 60
# Of a failed job without pytest, repeated at the very end: whoever sees the end of a log alone knows what failed.
_LAST_LINES = 12
# Of each failed test, with what pytest has before its own `assert`: a playbook's last words say why.
_REASON_LINES, _REASON_WIDTH = 6, 160
# What needs minutes, longest first by the table of 25 November 2026 (32daaa1b): these start before the others, so that
# nothing long is left to the end, and what computes all the time (unit, newest, lint) runs beside what waits for hosts
# and timers. A job that isn't here comes after them.
LONG_JOBS = (
    "molecule/cluster",
    "molecule/site",
    "molecule/monitoring",
    "molecule/rollout",
    "molecule/bench",
    "unit",
    "molecule/llama_cpp",
    "lab",
    "newest",
    "molecule/services",
    "molecule/hotplug",
    "molecule/image_store",
    "cluster",
    "molecule/stage",
    "molecule/clients",
    "molecule/drift_timer",
    "molecule/gateway",
    "molecule/fabric",
    "lint",
    "molecule/drift",
    "molecule/doctor",
    "molecule/model_store",
)
# Before all others: the labs' hosts start from the one, and the other packs this folder before labs come and go in it.
FIRST_JOBS = ("images", "sanity")

Command = Sequence[str]
Outcome = Literal["passed", "failed", "skipped"]

PYTHON = str(BIN / "python")
COLOUR = sys.stdout.isatty()
# A test that hangs ends after so long: it costs a run this time, and not all of it.
TEST_LIMIT_S = 900
PYTEST = (PYTHON, "-m", "pytest", f"--color={'yes' if COLOUR else 'no'}", f"--timeout={TEST_LIMIT_S}")
RUFF = ("ruff", "check", ".")
SUITES: Command = ("mypy", "--config-file", "tests/suites.ini", "tests", "extensions/molecule")
YAMLLINT = ("yamllint", "--strict", ".")
UNIT = (*PYTEST, "tests/unit")
MUTANTS = (PYTHON, "tests/tools/mutate.py", "--changed", "--seconds", "60", "--jobs", "1")
ANSIBLE_LINT = ("ansible-lint", "--offline", "--strict")
# The schemas of GitHub, which this tool brings.
_SCHEMAS = {
    "workflows": "workflows/*.yml",
    "issue-forms": "ISSUE_TEMPLATE/[!c]*.yml",
    "issue-config": "ISSUE_TEMPLATE/config.yml",
}
GITHUB = tuple(
    ("check-jsonschema", "--builtin-schema", f"vendor.github-{name}", *map(str, sorted(ROOT.glob(f".github/{files}"))))
    for name, files in _SCHEMAS.items()
)
DEPENDABOT = ("check-jsonschema", "--builtin-schema", "vendor.dependabot", ".github/dependabot.yml")
DOCS = ("antsibull-docs", "lint-collection-docs", "--plugin-docs", "--skip-rstcheck", ".")
LAB, BUILD = "tests/lab/lab", "tests/lab/vllm/build"
CALLBACKS = ROOT / "tests" / "tools" / "callbacks"


def scenarios() -> list[str]:
    """All but `default`, which molecule wants to exist and which tests nothing."""
    return sorted({path.parent.name for path in ROOT.glob("extensions/molecule/*/molecule.yml")} - {"default"})


@dataclass(frozen=True)
class Part:
    """One named part. optional: there are machines that we support where it can't run.

    each: what it is made of, if more than one job; each job's commands have that name as their last word.
    """

    summary: str
    commands: tuple[Command, ...]
    optional: bool = False
    needs_lab: bool = False
    each: Sequence[str] = ()


@dataclass(frozen=True)
class Job:
    """Commands that run one after the other."""

    name: str
    part: Part
    commands: tuple[Command, ...]


PARTS = {
    "images": Part(
        "what the hosts of a lab and their containers start from", ((LAB, "base"), (BUILD,)), needs_lab=True
    ),
    "sanity": Part("ansible-test sanity on the built and installed artifact", ((PYTHON, "tests/tools/sanity.py"),)),
    "lint": Part(
        "ruff, yamllint, ansible-lint (production), GitHub's schemas",
        (RUFF, YAMLLINT, ANSIBLE_LINT, *GITHUB, DEPENDABOT),
    ),
    "types": Part(
        "mypy --strict over all plugins and the lab; over the other suites, calls of what is gone",
        (("mypy", "-p", COLLECTION), ("mypy", "tests/lab", "tests/tools"), SUITES),
    ),
    "unit": Part(
        "tables and properties, on the oldest ansible-core that we support; which of its changed lines no test holds",
        (UNIT, MUTANTS),
    ),
    "docs": Part(
        "the documentation of plugins and roles, plain words on every page, and the site",
        (DOCS, (PYTHON, "tests/tools/prose.py"), (PYTHON, "tools/docsite.py")),
    ),
    "changelog": Part("every fragment and CHANGELOG", (("antsibull-changelog", "lint"),)),
    "newest": Part(
        "what touches Ansible, on the newest ansible-core", ((PYTHON, "tests/tools/newest.py"),), optional=True
    ),
    "lab": Part("the lab: cables, power, nothing left behind", ((*PYTEST, "tests/lab"),), needs_lab=True),
    "cluster": Part(
        "a group of two hosts heals itself; all of it: pytest tests/cluster --whole",
        ((*PYTEST, "tests/cluster"),),
        needs_lab=True,
    ),
    "molecule": Part(
        "each role on lab hosts: check, converge, idempotence, verify; one scenario: molecule/site",
        ((PYTHON, "tests/tools/scenario.py"),),
        needs_lab=True,
        each=scenarios(),
    ),
}
CHANGED = (PYTHON, "tests/tools/changed.py")
QUICK = Part("what a developer runs after each edit, seconds: see --changed", (CHANGED,))


def jobs(name: str, part: Part) -> list[Job]:
    if not part.each:
        return [Job(name, part, part.commands)]
    return [Job(f"{name}/{one}", part, tuple((*command, one) for command in part.commands)) for one in part.each]


def in_order(jobs: Iterable[Job]) -> list[Job]:
    """Those that others wait for, then the long ones, longest first, then the rest as they come."""
    order = {name: place for place, name in enumerate((*FIRST_JOBS, *LONG_JOBS))}
    return sorted(jobs, key=lambda job: order.get(job.name, len(order)))


def may_start(running: int, idle: float, free: int) -> bool:
    """Whether one more job may begin. idle: the processors' idle share of late, 0 to 1; free: bytes of memory."""
    return running < AT_ONCE or (running < AT_MOST and idle >= IDLE_SHARE and free >= LAB_BYTES)


def idle_ticks() -> tuple[float, float]:
    """Of all processors since the machine began: with nothing to do, not even a disk to wait for; and in all."""
    ticks = [int(word) for word in Path("/proc/stat").read_text("ascii").split("\n", 1)[0].split()[1:9]]
    return float(ticks[3]), float(sum(ticks))


def free_memory() -> int:
    """Bytes that programs may still take."""
    lines = dict(line.split(":") for line in Path("/proc/meminfo").read_text("ascii").splitlines())
    return int(lines["MemAvailable"].split()[0]) << 10


@dataclass
class Result:
    """Of one job, as it grows. seconds: by the clock; cpu: of its processes here, not of the hosts of its lab."""

    job: Job
    output: list[str] = field(default_factory=list)
    seconds: float = 0.0
    cpu: float = 0.0
    passed: int = 0
    failed: int = 0
    skipped_because: str = ""

    @property
    def outcome(self) -> Outcome:
        return "failed" if self.failed else "skipped" if self.skipped_because else "passed"


def plain(line: str) -> str:
    """Without colours."""
    return re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip()


def counted(line: str) -> tuple[int, int]:
    """Tests passed and failed by the closing line of one pytest run; (0, 0) for any other line."""
    line = plain(line)
    if not re.search(r"\b(passed|failed|errors?|skipped)\b.* in [0-9.]+s", line):
        return 0, 0
    counts = {word.rstrip("s"): int(number) for number, word in re.findall(r"(\d+) (passed|failed|errors?)", line)}
    return counts.get("passed", 0), counts.get("failed", 0) + counts.get("error", 0)


def run(job: Job, aloud: bool) -> Result:
    """aloud: its output goes to the terminal as it comes."""
    start = time.monotonic()
    result = Result(job)
    for command in job.commands:
        run_command(command, result, aloud)
    result.seconds = time.monotonic() - start
    return result


def run_command(command: Command, result: Result, aloud: bool) -> None:
    """Adds to the result. A tool that counts no tests counts one."""
    # Not PYTHONUNBUFFERED, which Ansible's modules on this machine would inherit: each comes as a program by standard
    # input, and Python then reads its 200,000 bytes one by one.
    environment = os.environ | {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}
    environment |= {} if COLOUR else {"NO_COLOR": "1"}
    passed = failed = 0
    last = ""
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        text=True,
        errors="replace",
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    with process:
        assert process.stdout is not None
        for line in process.stdout:
            if aloud:
                print(line, end="", flush=True)
            result.output.append(line)
            last = line.strip() or last
            good, bad = counted(line)
            passed, failed = passed + good, failed + bad
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    result.cpu += usage.ru_utime + usage.ru_stime
    if process.returncode == SKIP:
        result.skipped_because = result.skipped_because or last
    elif process.returncode:
        failed = failed or 1
    else:
        passed = passed or 1
    result.passed += passed
    result.failed += failed


def run_all(jobs: Sequence[Job]) -> list[Result]:
    """In the order of the jobs, so many at a time as `may_start` lets; results in the order in which they end."""
    if len(jobs) == 1:
        return [run(jobs[0], aloud=True)]
    began = spoke = looked = time.monotonic()
    results: list[Result] = []
    waiting = deque(jobs)
    before, idle = idle_ticks(), 0.0
    with ThreadPoolExecutor(AT_MOST) as pool:
        running: dict[Future[Result], Job] = {}
        while waiting or running:
            while waiting and may_start(len(running), idle, free_memory()):
                # The next one waits until it is seen what this one leaves.
                idle, looked, before = 0.0, time.monotonic(), idle_ticks()
                job = waiting.popleft()
                running[pool.submit(run, job, False)] = job
            ended, _ = wait(running, LOOK_S, FIRST_COMPLETED)
            for future in ended:
                del running[future]
                results.append(future.result())
                show(results[-1])
            now = time.monotonic()
            if now - looked >= LOOK_S:
                after = idle_ticks()
                idle, looked, before = (after[0] - before[0]) / max(after[1] - before[1], 1.0), now, after
            if ended:
                spoke = now
            elif now - spoke >= HEARTBEAT_S:
                spoke = now
                names = " and ".join(job.name for job in running.values())
                print(f"... {(now - began) / 60:.0f} min: {names}; {len(results)} of {len(jobs)} ended", flush=True)
    return results


def show(result: Result) -> None:
    """A job's output, whole."""
    print(f"\n===== {result.job.name}: {result.outcome} after {result.seconds:.0f} s", flush=True)
    print("".join(result.output), end="", flush=True)


def table(results: Iterable[Result]) -> str:
    rows = [
        f"{r.job.name:<26}{r.outcome:<10}{r.seconds:7.1f} s{r.cpu:7.1f} s"
        + (f"  because {r.skipped_because}" if r.skipped_because else "")
        for r in results
    ]
    return "\n".join([f"{'job':<26}{'result':<10}{'time':>9}{'cpu':>9}", *rows])


def why(result: Result) -> str:
    """What failed in a job, for the end of the output: the tests by pytest's own summary, with the end of what each
    says, else the job's last lines."""
    lines = [line for line in map(plain, result.output) if line]
    tests = [line for line in lines if re.match(r"(FAILED|ERROR) \S+\.py", line)]
    reasons = _reasons(lines)
    shown = [line for test in tests for line in (test, *next((text for name, text in reasons if name in test), []))]
    return "\n".join(f"  {line}" for line in shown or lines[-_LAST_LINES:])


def _reasons(lines: Iterable[str]) -> list[tuple[str, list[str]]]:
    """The name of each failed test and the end of its message, which pytest marks, up to the terms of its `assert`."""
    found: list[tuple[str, list[str]]] = []
    is_message = False
    for line in lines:
        if title := re.match(r"_{2,} (?:ERROR at \w+ of )?(.+?) _{2,}$", line):
            found.append((title[1], []))
            is_message = True
        elif found and line.startswith("E  "):
            words = line[1:].strip()[:_REASON_WIDTH]
            is_message = is_message and not (found[-1][1] and words.startswith("assert "))
            if is_message:
                found[-1][1].append(words)
    return [(name, words[-_REASON_LINES:]) for name, words in found]


def is_failure(result: Result, in_ci: bool) -> bool:
    return result.outcome == "failed" or (result.outcome == "skipped" and in_ci and not result.job.part.optional)


def main() -> int:
    every = {"quick": QUICK, **PARTS}
    known = {name: jobs(name, part) for name, part in every.items()}
    known |= {job.name: [job] for found in [*known.values()] for job in found}
    parser = argparse.ArgumentParser(
        prog="./test",
        description=__doc__,
        epilog="parts:\n" + "\n".join(f"  {name:<12}{part.summary}" for name, part in every.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("parts", nargs="*", metavar="part", choices=[*known, []], help="all but quick if none is named")
    parser.add_argument(
        "--changed",
        nargs="?",
        const="main",
        metavar="BASE",
        help="instead: ruff and yamllint on what changed since the branch left BASE (main), and the unit tests nearest",
    )
    options = parser.parse_args()
    wanted = [job for name in options.parts or PARTS for job in known[name]]
    if options.changed:
        wanted = [Job("--changed", QUICK, ((*CHANGED, options.changed),))]

    began = time.monotonic()
    results: list[Result] = []
    payloads = tempfile.TemporaryDirectory(prefix="gb10-payloads-")
    os.environ |= {"ANSIBLE_CALLBACK_PLUGINS": str(CALLBACKS), "ANSIBLE_CALLBACKS_ENABLED": "kept_payloads"}
    os.environ |= {"GB10_PAYLOADS": payloads.name}
    if any(job.part.needs_lab for job in wanted):
        if os.geteuid() == 0:
            subprocess.run((LAB, "deps"), cwd=ROOT, check=True)
        else:
            because = "it makes user, mount and network namespaces, which needs root"
            results = [Result(job, skipped_because=because) for job in wanted if job.part.needs_lab]
            wanted = [job for job in wanted if not job.part.needs_lab]
    before = idle_ticks()
    results += run_all(in_order(wanted))
    after = idle_ticks()
    busy = 1 - (after[0] - before[0]) / max(after[1] - before[1], 1.0)
    failures = [result for result in results if is_failure(result, "CI" in os.environ)]
    print(f"\n{table(results)}\nin all {time.monotonic() - began:.0f} s, the processors busy for {busy:.0%} of it\n")
    for failure in failures:
        print(f"failed: {failure.job.name}; alone: ./test {failure.job.name}\n{why(failure)}\n")
    print(f"{sum(r.passed for r in results)} passed, {sum(r.failed for r in results)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
