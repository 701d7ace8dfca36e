# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One unattended drift check: drift.yml through ansible-runner, its artifacts rotated, its outcome in one line.

Managed by gb10.fleet. Exits with 0 clean, 2 drift, 1 unknown: a missing host, an inventory that can't be read, a
check that ran out of time, or no ansible-playbook.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

UNKNOWN = 1
PREFIX = "drift: "


def outcome(code: int, status: str, lines: list[str]) -> tuple[int, str]:
    """The exit code and the line for the journal, from how ansible-playbook ended and what it printed."""
    summaries = [line.strip() for line in lines if line.startswith(PREFIX)]
    if status == "timeout":
        return UNKNOWN, "drift: unknown: the check ran out of time"
    if summaries:
        return code if code in (0, 2) else UNKNOWN, summaries[-1]
    return UNKNOWN, f"drift: unknown: {_reason(lines)}"


def _reason(lines: list[str]) -> str:
    """Ansible's error. That of an inventory does not name the file, which a warning before it does."""
    files = [line for line in lines if line.startswith("[WARNING]: Unable to parse ")]
    errors = [line for line in lines if "ERROR" in line or line.startswith("fatal:")]
    causes = [*files[:1], *errors[:1]] or ["ansible-playbook had no output"]
    return ": ".join(line.strip().removeprefix("[WARNING]: ").removeprefix("[ERROR]: ") for line in causes)


def check(settings: dict[str, Any]) -> tuple[int, str]:
    import ansible_runner  # noqa: PLC0415 - its absence is an outcome as well

    runner = ansible_runner.run(
        private_data_dir=settings["folder"],
        project_dir=settings["project"],
        playbook=settings["playbook"],
        inventory=settings["inventory"],
        cmdline=f"-e drift_deep=true -e drift_speed=true -e drift_folder={settings['folder']}/reports",
        rotate_artifacts=settings["keep"],
        timeout=settings["seconds"],
        settings={"suppress_env_files": True},
        envvars={"ANSIBLE_CONFIG": settings["config"], "ANSIBLE_NOCOLOR": "1"},
        quiet=True,
    )
    with runner.stdout as stream:
        return outcome(runner.rc if runner.rc is not None else UNKNOWN, runner.status, stream.read().splitlines())


def main() -> None:
    parser = argparse.ArgumentParser(description="Check the fleet's drift once.")
    parser.add_argument("settings", type=Path, help="a JSON file that the role drift_timer writes")
    settings = json.loads(parser.parse_args().settings.read_bytes())
    os.environ["PATH"] = f"{settings['path']}{os.pathsep}{os.environ.get('PATH', '/usr/bin')}"
    try:
        code, line = check(settings)
    except Exception as error:  # whatever it is: nobody watches, so it is reported in one line
        code, line = UNKNOWN, f"drift: unknown: {error}"
    print(line, flush=True)
    sys.exit(code)


if __name__ == "__main__":
    main()
