# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""Every engine by the name that a recipe writes, `engine: NAME`."""

from __future__ import annotations

from ansible_collections.gb10.fleet.plugins.module_utils._engines.interface import Engine
from ansible_collections.gb10.fleet.plugins.module_utils._engines.llama_cpp.engine import LlamaCpp
from ansible_collections.gb10.fleet.plugins.module_utils._engines.sglang.engine import Sglang
from ansible_collections.gb10.fleet.plugins.module_utils._engines.trtllm.engine import TrtLlm
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.engine import Vllm

DEFAULT = "vllm"
ENGINES: dict[str, Engine] = {DEFAULT: Vllm(), "llama.cpp": LlamaCpp(), "sglang": Sglang(), "trtllm": TrtLlm()}
