# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A failed check on a host shows the end of that host's journal."""

from __future__ import annotations

from collections.abc import Generator

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Function,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    host = item.funcargs.get("host")
    if report.when == "call" and report.failed and host is not None:
        journal = host.run("journalctl --boot --no-pager --lines 60").stdout
        report.sections.append((f"journal of {host.backend.hostname}", journal))
    return report
