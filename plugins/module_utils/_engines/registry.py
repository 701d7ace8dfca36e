# SPDX-License-Identifier: GPL-3.0-or-later
"""Every engine by the name that a recipe writes, `engine: NAME`."""

from .engine import Engine
from .llama_cpp.engine import LlamaCpp
from .sglang.engine import Sglang
from .trtllm.engine import TrtLlm
from .vllm.engine import Vllm

DEFAULT = "vllm"
ENGINES: dict[str, Engine] = {DEFAULT: Vllm(), "llama.cpp": LlamaCpp(), "sglang": Sglang(), "trtllm": TrtLlm()}
