# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab's own tests need a lab: slow, and only where it can run."""

from __future__ import annotations

import signal

import pytest

from .fixtures import fleet, new_fleet

__all__ = ["fleet", "new_fleet"]

# A shell starts what is in its background with SIGINT ignored, which children inherit: what is interrupted here, too.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.import_plugin("shuffle")
