# SPDX-License-Identifier: GPL-3.0-or-later
"""Recipes of sparkrun for engines whose options are catalogued (`_engines.options`): SGLang and TensorRT-LLM."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..._base import worded
from ..._base.findings import Finding
from ..._base.gb10 import data_table
from ..._facts.models.purpose import CHAT
from ..options import read_words
from ..registry import ENGINES
from ..sglang import catalogue as sglang
from ..trtllm import catalogue as trtllm
from .foreign_llama import Served, behind_program, host_counts, take_planned

_CATALOGUES = {"sglang": (sglang.load, sglang.NEWEST), "trtllm": (trtllm.load, trtllm.NEWEST)}


@dataclass(frozen=True)
class Runtime:
    """engine: as our recipes write it. programs: how a command may begin. names: sparkrun's own for options that are
    called otherwise. ranks: options that divide the model over hosts. share: that give it a part of the memory.
    embeds: the option of a model that gives vectors."""

    engine: str
    programs: Sequence[str]
    names: Mapping[str, str]
    ranks: Sequence[str]
    share: Sequence[str]
    embeds: str

    def read(self, words: Sequence[str]) -> dict[str, Any]:
        """Options by their own names, which TensorRT-LLM writes with underscores."""
        load, newest = _CATALOGUES[self.engine]
        words = [*([] if not words or words[0].startswith("-") else ["--model-path"]), *words]
        return read_words(
            [re.sub(r"^--\w+", lambda name: name[0].replace("_", "-"), word) for word in words], load()[newest]
        )


RUNTIMES = {name: Runtime(**row) for name, row in data_table("recipe_runtimes").items()}


def served(theirs: Mapping[str, Any], written: list[str] | None, name: str) -> Served | list[Finding]:
    """written: the words of the command; None where the recipe has none, and its defaults say all. Findings where it
    can't be taken."""
    runtime = RUNTIMES[theirs["runtime"]]
    spec = ENGINES[runtime.engine].spec
    if written is None:
        given = theirs["defaults"].items()
        flags = {runtime.names.get(key, key.replace("_", "-")): value for key, value in given}
    else:
        words, findings = behind_program(written, name, runtime.programs)
        if words is None:
            return findings
        flags = runtime.read(words)
    kind = "embed" if flags.get(runtime.embeds) else CHAT
    model = flags.pop("model-path", None) or theirs["model"]
    found = Served(str(model), flags, host_counts(theirs), kind)
    found.findings += take_planned(flags, spec, name, ("model", runtime.embeds))
    divided = [flags.pop(option) for option in runtime.ranks if option in flags]
    ranks = 1
    for part in divided:
        ranks *= part if isinstance(part, int) else 1
    if ranks > 1:
        found.host_counts = [ranks]
    for option in runtime.share:
        if option in flags:
            shown, remedy = f"{option} {flags.pop(option)}", "nothing: the workload decides it"
            found.findings.append(worded.hint("import-planned", f"{name}.command", found=shown, remedy=remedy))
    return found
