# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""llama-benchy 0.4.0 by its own entry point, with what its command line can't do safely.

It takes its key as an option alone, which whoever is on this machine would read in the list of processes. So that this
program takes options and key from its standard input, and gives them to llama-benchy as `sys.argv` of a process that
runs already: what the kernel shows of it stays as it was. A relay on loopback that adds the key would be one more
program in the way of what is measured, and an open door to the endpoint for the time.

Two more things are settled here: the prompts' seed, so that two services get the same ones; and the tokenizer, in whose
place llama-benchy would take that of gpt2, fetched from the hub, where it can't read the model's.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def main() -> None:
    given: dict[str, Any] = json.load(sys.stdin)
    # of its own environment, which this program's type check doesn't have
    import numpy  # noqa: PLC0415
    from llama_benchy import __main__ as benchy  # noqa: PLC0415
    from llama_benchy import corpus  # noqa: PLC0415

    def tokenizer(_corpus: Any, _model: str, name: str) -> Any:
        try:
            return corpus.LightweightTokenizer.from_pretrained(name)
        except Exception as problem:  # whatever a damaged file makes of it
            sys.exit(f"the tokenizer in {name} can't be used: {problem}")

    corpus.TokenizedCorpus._get_tokenizer = tokenizer
    if given["book"]:
        text = Path(given["book"]).read_text("utf-8")
        corpus.TokenizedCorpus._load_data = lambda self: self.tokenizer.encode(text)
    numpy.random.seed(given["seed"] % 2**32)
    sys.argv = ["llama-benchy", *given["words"], "--api-key", given["key"] or "EMPTY"]
    benchy.main()


if __name__ == "__main__":
    main()
