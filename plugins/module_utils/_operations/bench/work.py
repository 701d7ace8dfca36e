# SPDX-License-Identifier: GPL-3.0-or-later
"""One minute of load on a host, beside what its GPU shows each second: through the engine that serves here, or by
multiplications in an image. It ends by itself, whatever becomes of the controller."""

import json
import time
from collections.abc import Mapping
from typing import Any

from ..._base.sizes import GIB
from ..._on_host.rank.host import gpu_by_specification, memory_now, short_of_memory, with_specification
from .load import Run, load, shown, watched

_ROWS = ("utilization.gpu", "clocks.sm", "power.draw", "temperature.gpu")
_NAME, _NEEDED, _FLOOR, _LATE_S, _MOST_WORDS = "gb10-burn-in", 4 * GIB, 6 * GIB, 60, 600


def work(run: Run, asked: Mapping[str, Any]) -> dict[str, Any]:
    """``{by, rows, figures}``. asked: ``{seconds, ranks, load, words, images, program}``: ranks that the plan has here,
    by container; how the one with an endpoint here is asked, its words with {seed} in them; images for
    multiplications, and the program that multiplies.

    by: what worked; empty for a rank whose head does. rows: of `_ROWS`, each second. ValueError with a sentence where
    nothing can work.
    """
    until, watching = time.monotonic() + asked["seconds"], watched(_ROWS)
    try:
        serving = [name for name, container in asked["ranks"].items() if _runs(run, container)]
        if not serving:
            by, figures = _multiplied(run, asked)
        else:
            by, figures = _served(run, asked, until) if asked["load"].get("service") in serving else ("", {})
        time.sleep(max(0.0, until - time.monotonic()))
    finally:
        rows = shown(watching, len(_ROWS))
    return {"by": by, "rows": rows, "figures": figures}


def _runs(run: Run, container: str) -> bool:
    return run(["docker", "inspect", "--format", "{{.State.Running}}", container], {})[1].strip() == "true"


def _served(run: Run, asked: Mapping[str, Any], until: float) -> tuple[str, dict[str, float]]:
    """Requests of others are load as well: then there is nothing to send."""
    tokens = seconds = 0.0
    while time.monotonic() < until:
        seed = f"{time.time():.0f}"  # of prompts that no cache holds
        answer = load(run, asked["load"], [word.replace("{seed}", seed) for word in asked["words"]])
        if "result" in answer:
            tokens += answer["after"]["answered"] - answer["before"]["answered"]
            seconds += answer["seconds"]
    return asked["load"]["service"], {"tokens_s": tokens / seconds} if seconds else {}


def _multiplied(run: Run, asked: Mapping[str, Any]) -> tuple[str, dict[str, float]]:
    images, seconds = asked["images"], asked["seconds"]
    here = [image for image in images if run(["docker", "image", "inspect", image], {})[0] == 0]
    if not here:
        raise ValueError(
            f"nothing serves here, and none of its images is here ({', '.join(images) or 'none is declared'}): run "
            "site.yml first, or write -e image=REFERENCE of an image here that has PyTorch"
        )
    if short := short_of_memory(memory_now().available, _NEEDED, _FLOOR):
        raise ValueError(short)
    run(["docker", "rm", "--force", _NAME], {})
    words = ["docker", "run", "--rm", "--name", _NAME, "--pull", "never", "--gpus", "all", "--network", "none"]
    words = with_specification(words) if gpu_by_specification() else words
    inside = ["--kill-after=5", f"{seconds + _LATE_S:.0f}", "python3", "-c", asked["program"], f"{seconds:.0f}"]
    code, out, err = run([*words, "--entrypoint", "timeout", here[0], *inside], {})
    try:
        found = json.loads(out.strip().splitlines()[-1])
        return here[0], {name: float(found[name]) for name in ("tflops", "gb_s", "wrong")}
    except (ValueError, LookupError, TypeError):
        printed = (err.strip() or out.strip())[-_MOST_WORDS:]
        raise ValueError(f"multiplications in {here[0]} ended with {code}: {printed}") from None
