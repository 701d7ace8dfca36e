# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A vLLM platform plugin, for lab images only: a Spark's command line runs unchanged on a CPU."""

from __future__ import annotations


def register() -> str:
    """vLLM's entry point group `vllm.platform_plugins` calls this; the answer names the platform's class."""
    return "vllm_lab.platform.LabPlatform"
