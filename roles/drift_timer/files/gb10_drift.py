# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One unattended drift check: drift.yml through ansible-runner, its artifacts rotated, its outcome in one line.

The line also goes by mail, to a webhook or to ntfy, if the settings name one: when a check is not clean, when it is
clean again, and, by systemd's OnFailure, when the check itself did not run to its end. With a page in the settings,
status.yml then draws the fleet on it.

Managed by gb10.fleet. Exits with 0 clean, 2 drift, 1 unknown: a missing host, an inventory that can't be read, a
check that ran out of time, or no ansible-playbook.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

UNKNOWN = 1
PREFIX = "drift: "
SECONDS = 30
PAGE_SECONDS = 600


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
    options = f"-e drift_deep=true -e drift_speed=true -e drift_folder={settings['folder']}/reports"
    return outcome(*_run(settings, settings["playbook"], options))


def draw(settings: dict[str, Any]) -> str:
    """The fleet on one page, by status.yml; why there is none of tonight."""
    page = Path(settings["page"])
    before = page.stat().st_mtime_ns if page.exists() else None
    options = f"-e {shlex.quote(f'page={page}')} -e drift_folder={settings['folder']}/reports"
    _code, status, lines = _run(settings | {"seconds": PAGE_SECONDS}, "gb10.fleet.status", options)
    if page.exists() and page.stat().st_mtime_ns != before:
        return ""
    refused = [line for line in lines if line.startswith("page: ")]
    return "it ran out of time" if status == "timeout" else refused[0] if refused else _reason(lines)


def _run(settings: dict[str, Any], playbook: str, options: str) -> tuple[int, str, list[str]]:
    import ansible_runner  # noqa: PLC0415 - its absence is an outcome as well

    runner = ansible_runner.run(
        private_data_dir=settings["folder"],
        project_dir=settings["project"],
        playbook=playbook,
        inventory=settings["inventory"],
        cmdline=options,
        rotate_artifacts=settings["keep"],
        timeout=settings["seconds"],
        settings={"suppress_env_files": True},
        envvars={"ANSIBLE_CONFIG": settings["config"], "ANSIBLE_NOCOLOR": "1"},
        quiet=True,
    )
    with runner.stdout as stream:
        return runner.rc if runner.rc is not None else UNKNOWN, runner.status, stream.read().splitlines()


def is_news(code: int, line: str, folder: Path) -> bool:
    """Whether somebody is to know of it: each check that is not clean, and the first that is clean again."""
    last = folder / "last-line"
    before = last.read_text("utf-8") if last.exists() else ""
    last.write_text(line if code else "", "utf-8")
    return bool(code or before)


def send(ways: dict[str, str], line: str, subject: str) -> list[str]:
    """Why a way did not take the line; each way is tried. A file holds a URL, since a URL may be a secret."""
    failed = []
    for name, value in ways.items():
        try:
            if name == "mail":
                text = f"To: {value}\nSubject: {subject}\nContent-Type: text/plain; charset=utf-8\n\n{line}\n"
                words = ["/usr/sbin/sendmail", "-t", "-i"]
                subprocess.run(words, input=text.encode(), check=True, timeout=SECONDS, capture_output=True)
            else:
                body = line if name == "ntfy_url_file" else json.dumps({"text": f"{subject}: {line}"})
                kind = "text/plain; charset=utf-8" if name == "ntfy_url_file" else "application/json"
                headers = {"Content-Type": kind, "Title": subject}
                url = Path(value).read_text("utf-8").strip()
                with urllib.request.urlopen(urllib.request.Request(url, body.encode(), headers), timeout=SECONDS):
                    pass
        except (OSError, ValueError, subprocess.SubprocessError) as problem:
            failed.append(f"{name}: {getattr(problem, 'reason', None) or type(problem).__name__}")
    return failed


def main() -> None:
    parser = argparse.ArgumentParser(description="Check the fleet's drift once.")
    parser.add_argument("settings", type=Path, help="a JSON file that the role drift_timer writes")
    parser.add_argument("--did-not-run", action="store_true", help="check nothing: send that the check did not end")
    given = parser.parse_args()
    settings = json.loads(given.settings.read_bytes())
    subject = f"gb10.fleet on {socket.gethostname()}"
    if given.did_not_run:
        line = "drift: unknown: the check did not run to its end; see journalctl -u gb10-drift"
        sys.exit(_sent(settings, line, subject))
    os.environ["PATH"] = f"{settings['path']}{os.pathsep}{os.environ.get('PATH', '/usr/bin')}"
    try:
        code, line = check(settings)
    except Exception as error:  # whatever it is: nobody watches, so it is reported in one line
        code, line = UNKNOWN, f"drift: unknown: {error}"
    if settings.get("page"):
        try:
            missing = draw(settings)
        except Exception as error:  # a page that can't be had changes no verdict
            missing = str(error)
        if missing:
            print(f"drift: no page: {missing}", flush=True)
    print(line, flush=True)
    # one without a verdict makes the service fail, and OnFailure sends that
    if is_news(code, line, Path(settings["folder"])):
        _sent(settings, line, subject)
    sys.exit(code)


def _sent(settings: dict[str, Any], line: str, subject: str) -> int:
    failed = send(settings.get("notify") or {}, line, subject)
    for why in failed:
        print(f"drift: no message by {why}", flush=True)
    return UNKNOWN if failed else 0


if __name__ == "__main__":
    main()
