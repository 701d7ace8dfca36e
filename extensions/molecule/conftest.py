# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A failed check on a host shows the end of that host's journal; playbooks as a user runs them; what CI leaves out."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest
from shell import owners_environment

ROOT = Path(__file__).resolve().parents[2]

Playbook = Callable[..., "subprocess.CompletedProcess[str]"]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "whole: left out without GB10_WHOLE=1 in the environment")
    config.pluginmanager.import_plugin("shuffle")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if "GB10_WHOLE" not in os.environ:
        config.hook.pytest_deselected(items=[item for item in items if item.get_closest_marker("whole")])
        items[:] = [item for item in items if not item.get_closest_marker("whole")]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Function) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    host: Any = item.funcargs.get("host")
    if report.when == "call" and report.failed and host is not None:
        journal = host.run("journalctl --boot --no-pager --lines 60").stdout
        report.sections.append((f"journal of {host.backend.hostname}", journal))
    return report


@pytest.fixture
def playbook() -> Playbook:
    """Run a playbook from the root, with the repository's own configuration, not molecule's."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = ("ansible-playbook", *arguments)
        return subprocess.run(command, cwd=ROOT, env=owners_environment(), capture_output=True, text=True, check=False)

    return run
