# SPDX-License-Identifier: GPL-3.0-or-later
"""The files by which a host itself ends a trial that its controller has left."""

from typing import Any

from ..._base import layout
from ..._base.gb10 import text_of

_PROGRAM = "plugins/module_utils/_on_host/trial.py"
_EVERY_S = 30


def guard(service: str, inventory: str) -> dict[str, Any]:
    """``{timer, files, gone}``. files: as `host_files` takes them; gone: the same without them."""
    timer, unit = (f"{layout.UNITS}/{layout.trial(service)}.{kind}" for kind in ("timer", "service"))
    program = layout.trial_program(service)
    words = (
        f"{program} --folder {layout.way_back(service)} --deadline {layout.deadline(service)} "
        f"--unit {layout.unit(service)} --own {timer} {unit}"
    )
    texts = {
        unit: text_of("trial.service", service=service, words=words, inventory=inventory),
        timer: text_of("trial.timer", service=service, every_s=_EVERY_S, inventory=inventory),
    }
    kept = (layout.deadline(service), f"{layout.deadline(service)}.lock")
    return {
        "timer": f"{layout.trial(service)}.timer",
        "files": {
            program: {"mode": "0644", "source": _PROGRAM},
            **{path: {"mode": "0644", "content": text} for path, text in texts.items()},
        },
        "gone": {path: {"mode": "0644", "content": None} for path in (*texts, program, *kept)},
    }
