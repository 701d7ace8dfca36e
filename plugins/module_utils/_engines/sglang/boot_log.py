# SPDX-License-Identifier: GPL-3.0-or-later
"""What SGLang logs of its memory while it starts.

Source: model_executor/model_runner.py ("Load weight end") and managers/scheduler.py ("max_total_num_tokens="), the same
from 0.5.3 to 0.5.23. It counts in GiB and prints GB.
"""

import re

from ..memory.boots import BootLog

_WEIGHTS = re.compile(r"^.*?Load weight end\..*mem usage=([\d.]+) GB", re.MULTILINE)
_POOL = re.compile(r"^.*?max_total_num_tokens=(\d+), .*context_len=(\d+)", re.MULTILINE)


def parse_boot_log(log: str) -> BootLog:
    weights, pools = _WEIGHTS.findall(log), _POOL.findall(log)
    tokens, context = (int(pools[-1][0]), int(pools[-1][1])) if pools else (None, None)
    return BootLog(
        weights_gib=float(weights[0]) if weights else None,
        kv_cache_tokens=tokens,
        max_model_len=context,
        max_concurrency=tokens / context if tokens and context else None,
    )
