# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Properties: nothing is timed, since these machines are shared; CI looks at the same examples each time."""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("gb10", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("gb10")
