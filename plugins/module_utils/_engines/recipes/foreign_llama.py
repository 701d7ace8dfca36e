# SPDX-License-Identifier: GPL-3.0-or-later
"""What a recipe of sparkrun for llama.cpp says: its model's file, its options, on how many hosts it runs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..._base import worded
from ..._base.findings import Finding
from ..._facts.models.purpose import CHAT
from ..interface import EngineSpec
from ..llama_cpp.words import name_of, read_flags
from ..registry import ENGINES

RUNTIME = "llama-cpp"
ENGINE = "llama.cpp"
_SPEC = ENGINES[ENGINE].spec
PROGRAM = "llama-server"
# sparkrun's names for what llama-server calls otherwise, and what it makes of placement by itself.
_NAMES = {"max_model_len": "ctx-size", "max_num_seqs": "parallel"}
_PLACEMENT = frozenset({"tensor_parallel", "pipeline_parallel", "gpu_memory_utilization"})
_WHICH = (("rerank", "rerank"), ("embedding", "embed"))
# What leaves a size to the program, as the option's absence does.
_LEFT = {"ctx-size": 0, "parallel": -1}


@dataclass
class Served:
    """repository, file: of the model, the file None where nothing names it. kind: what it is asked."""

    repository: str
    flags: dict[str, Any]
    host_counts: list[int]
    kind: str = CHAT
    file: str | None = None
    findings: list[Finding] = field(default_factory=list)


def served(theirs: Mapping[str, Any], command: list[str] | None, name: str) -> Served | list[Finding]:
    """command: its words; None where the recipe has none, and its defaults say all. Findings of one that is another."""
    words, problems = behind_program(command, name) if command is not None else (None, [])
    if problems:
        return problems
    written = read_flags(words) if words is not None else _defaults(theirs["defaults"])
    flags = {option: value for option, value in written.items() if option not in _LEFT or value != _LEFT[option]}
    repository, _, size = str(flags.get("hf-repo") or theirs["model"]).partition(":")
    file = flags.get("hf-file")
    if file is None and isinstance(flags.get("model"), str):
        file = flags["model"].rpartition("/")[2]
    kind = next((kind for option, kind in _WHICH if flags.get(option) is True), CHAT)
    found = Served(repository, flags, host_counts(theirs), kind, file)
    if file is None:
        wanted = f"{size} of {repository}" if size else repository
        found.findings.append(worded.warning("import-gguf", f"{name}.model", wanted=wanted))
    found.findings.append(worded.hint("import-config/file", f"{name}.model"))
    found.findings += take_planned(flags, _SPEC, name, ("hf-repo", "hf-file", "model"))
    return found


def take_planned(flags: dict[str, object], spec: EngineSpec, name: str, silent: Sequence[str]) -> Iterator[Finding]:
    """Takes out what nobody sets by hand. silent: options that the recipe says otherwise."""
    for option in sorted(spec.planned_flags.keys() & flags.keys()):
        value = flags.pop(option)
        if option in silent:
            continue
        shown = "an API key" if "api-key" in option else f"{option} {value}"
        remedy = spec.planned_flags[option]
        yield worded.hint("import-planned", f"{name}.command", found=shown, remedy=remedy)


def _defaults(defaults: Mapping[str, object]) -> dict[str, Any]:
    taken = {key: value for key, value in defaults.items() if key not in _PLACEMENT}
    return {name_of(_NAMES.get(key, key).replace("_", "-")): value for key, value in taken.items()}


def host_counts(theirs: Mapping[str, Any]) -> list[int]:
    least = theirs.get("min_nodes", 1)
    most = theirs.get("max_nodes") or least
    return sorted({least, max(least, most)})


def behind_program(
    words: list[str], name: str, programs: Sequence[str] = (PROGRAM,)
) -> tuple[list[str] | None, list[Finding]]:
    """What follows a program in a command; None, with an error, where it is something else. programs: as one may write
    them, the usual one first."""
    bare = [word.rpartition("/")[2] for word in words]
    for begins in (program.split() for program in programs):
        for at in range(len(words)):
            if bare[at : at + len(begins)] == begins:
                return words[at + len(begins) :], []
    return None, [worded.error("import-command", f"{name}.command", program=programs[0])]
