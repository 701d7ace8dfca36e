# SPDX-License-Identifier: GPL-3.0-or-later
"""TensorRT-LLM: `trtllm-serve`, over several hosts by its Ray orchestrator."""
