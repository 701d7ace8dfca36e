# SPDX-License-Identifier: GPL-3.0-or-later
"""One run of an engine's own load generator on the host of the endpoint, in the service's own container."""

import contextlib
import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from ..._base.received import LINE, matching
from ..._host.probe.system import read_driver
from ..._on_host.rank.client import fetch, trusting
from ..._on_host.rank.endpoint import Access, metrics
from ..._on_host.rank.listener import stranger
from ..._on_host.rank.probes import Metrics
from ..._on_host.rank.service import read_key

# words, variables beside the environment: status, output, errors
Run = Callable[[Sequence[str], Mapping[str, str]], tuple[int, str, str]]

# Where OpenAI's clients look for their key; a variable is in no list of processes.
_KEY = "OPENAI_API_KEY"
_IDLE_S, _ASK_S = 20.0, 30.0
_MOST_WORDS = 600
# A model's name; a word that begins with a dash would be an option.
_MODEL = rf"(?!-){LINE}."
_ROWS = ("clocks.sm", "power.draw", "temperature.gpu")
# Docker's status and words for a command that never began: seen in one of 600 starts on a busy machine, and in
# moby/moby#40399 of a check every ten seconds.
_NOT_BEGUN = (126, "OCI runtime exec failed")


@dataclass(frozen=True)
class Traffic:
    """Of the endpoint. busy: requests that run or wait; answered, prompted: tokens since it started; steps, accepted:
    of its drafts, or a_step: tokens that a step gives with them."""

    busy: float
    answered: float
    prompted: float
    steps: float = 0
    accepted: float = 0
    a_step: float = 0


def load(run: Run, asked: Mapping[str, Any], words: Sequence[str]) -> dict[str, Any]:
    """`form.ANSWER`. asked: ``{container, url, certificate, key_file, key_form, metrics, drafts, file}``. words: of the
    load generator, with ``{model}`` in place of where the model lies; none to look alone.

    Nothing is sent where requests of others run: ``before`` says so. ValueError with a sentence where it can't be asked
    or the load generator fails.
    """
    code, out, err = run(["docker", "inspect", "--format", "{{.State.Pid}} {{.Image}}", asked["container"]], {})
    if code:
        raise ValueError(
            f"its container {asked['container']} does not run ({err.strip()[:_MOST_WORDS]}): start it first"
        )
    init, _, image = out.strip().partition(" ")
    problem = stranger(asked["url"], int(init))
    if problem:
        raise ValueError(f"{problem}, so that nothing is measured")
    access = Access(asked["url"], read_key(asked["key_file"], asked["key_form"]), trusting(asked["certificate"]))
    model = _model(access)
    seen = {
        "driver": read_driver(lambda item: run(item, {})),
        "image": image,
        "kernel": os.uname().release,
        "model": model,
    }
    names, of_drafts = Metrics(**asked["metrics"]), asked.get("drafts") or ()
    before = _drafted(access, names, of_drafts, _idle(access, names))
    if before.busy or not words:
        return {"seen": seen, "before": asdict(before)}
    began, watching = time.monotonic(), watched(_ROWS)
    try:
        result = _generated(run, asked, [word.replace("{model}", model) for word in words], access.key)
    finally:
        seconds, gpu = time.monotonic() - began, _seen(watching)
    return {
        "seen": seen,
        "result": result,
        "seconds": seconds,
        "before": asdict(before),
        "gpu": gpu,
        "after": asdict(_drafted(access, names, of_drafts, _traffic(access, names))),
    }


def _generated(run: Run, asked: Mapping[str, Any], words: Sequence[str], key: str) -> str:
    inside = ["docker", "exec", "--env", _KEY, asked["container"]]
    variables = {_KEY: key or "none"}
    _code, _out, _err = run([*inside, "rm", "-f", asked["file"]], variables)
    code, out, err = run([*inside, *words], variables)
    if code == _NOT_BEGUN[0] and _NOT_BEGUN[1] in out + err:
        code, out, err = run([*inside, *words], variables)  # nothing was sent yet
    if code:
        printed = (err.strip() or out.strip())[-_MOST_WORDS:]
        raise ValueError(f"the load generator ended with {code}: {printed}")
    code, out, err = run([*inside, "cat", asked["file"]], variables)
    if code:
        raise ValueError(f"the load generator left no result: {err.strip()[-_MOST_WORDS:]}")
    return out


def _model(access: Access) -> str:
    """Where the engine has its model from, by its own words: the load generator takes the tokenizer from there."""
    reply = fetch(f"{access.url}/v1/models", access.key, _ASK_S, tls=access.tls)
    try:
        root = reply.document()["data"][0]["root"] if reply.status == 200 else None
    except (ValueError, LookupError, TypeError):
        root = None
    word = matching(_MODEL, root)
    if word is None:
        found = f"{reply.status or 'no answer'}: {reply.shown}"
        raise ValueError(f"/v1/models gave {found}; expected its model: status.yml says whether it serves")
    return word


def _traffic(access: Access, names: Metrics) -> Traffic:
    found = metrics(access, names, _ASK_S)
    if found is None:
        raise ValueError(f"{names.path} gave no answer, so nobody knows whether others ask in that time")
    return Traffic(found.running + found.waiting, found.answered, found.tokens - found.answered)


def _drafted(access: Access, names: Metrics, of_drafts: Sequence[str], found: Traffic) -> Traffic:
    """With what its drafts came to. of_drafts: the counters of steps and of accepted drafts, or the gauge of tokens a
    step; none without any."""
    if not of_drafts:
        return found
    read = metrics(access, replace(names, tokens=of_drafts[1:], answered=of_drafts[:1]), _ASK_S)
    if read is None:
        return found
    counted = {"steps": read.answered, "accepted": read.tokens} if of_drafts[1:] else {"a_step": read.answered}
    return replace(found, **counted)


def watched(names: Sequence[str]) -> subprocess.Popen[str] | None:
    """A program that writes what the GPU shows each second. names: nvidia-smi's."""
    query = ("nvidia-smi", f"--query-gpu={','.join(names)}", "--format=csv,noheader,nounits", "--loop=1")
    try:
        return subprocess.Popen(query, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    except OSError:
        return None


def shown(watching: subprocess.Popen[str] | None, count: int) -> list[list[float]]:
    """What `watched` has written, a row of so many figures a second; empty where nobody knows."""
    if watching is None:
        return []
    watching.terminate()
    try:
        written, _ = watching.communicate(timeout=_ASK_S)
    except subprocess.TimeoutExpired:
        watching.kill()
        return []
    rows = []
    for line in written.splitlines():
        with contextlib.suppress(ValueError):
            rows.append([float(word) for word in line.split(",")])
    return [row for row in rows if len(row) == count]


def _seen(watching: subprocess.Popen[str] | None) -> list[float]:
    """Clock, power and heat that a quarter of the seconds pass; empty where nobody knows."""
    columns = [sorted(column) for column in zip(*shown(watching, len(_ROWS)), strict=True)]
    return [column[3 * len(column) // 4] for column in columns]


def _idle(access: Access, names: Metrics) -> Traffic:
    """Waits for what the supervisor itself has asked; others' requests may last longer."""
    until = time.monotonic() + _IDLE_S
    while (found := _traffic(access, names)).busy and time.monotonic() < until:
        time.sleep(1)
    return found
