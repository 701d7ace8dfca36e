# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of gb10.fleet.bench_owner: llama-benchy on the controller, between two looks at who else asks."""

import base64
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..module_utils._base.own_files import replace_file
from ..module_utils._base.received import one_line
from ..module_utils._operations.bench.form import NotWholeError, alone, idle, tokens_a_step
from ..module_utils._operations.bench.owner import owner_measured, owner_words
from ..module_utils._operations.bench.sweep import Point
from ..plugin_utils._asking import NoAnswerError, as_read
from ..plugin_utils._benchmarking import UNMEASURED, Measuring, not_whole, show_figures, whole
from ..plugin_utils._documented import Documented

PROGRAM = Path(__file__).resolve().parents[2] / "playbooks" / "files" / "gb10_benchy.py"
_TOKENIZER = "tokenizer.json"
_MOST_TOKENIZER_BYTES = 64 << 20
_RUN_S = 1500.0
_MOST_WORDS = 600


class ActionModule(Documented, Measuring):
    def act(self, options: dict[str, Any], variables: dict[str, object]) -> dict[str, Any]:
        if self._task.check_mode:
            return UNMEASURED
        load, name = options["load"], options["load"]["service"]
        point = Point(**options["point"]) if options["point"] else None
        folder = Path(options["tokenizers"]) / name
        try:
            if point is None:
                self._bring_tokenizer(options["owner"], folder, variables)
                return {"changed": False, "seen": self.look(load, variables)["seen"]}
            answer = self._measured(options, point, folder, variables)
        except (NoAnswerError, NotWholeError, OSError) as why:
            raise not_whole(name, point, why) from None
        show_figures(name, point, answer["figures"])
        return {"changed": False, **answer}

    def _bring_tokenizer(self, owner: Mapping[str, object], folder: Path, variables: dict[str, object]) -> None:
        """The model's own, as its host has it: with another one the prompts would have another length."""
        path = f"{owner['model']}/{_TOKENIZER}"
        found = self.answered("ansible.builtin.slurp", {"src": path}, variables)
        if found.get("failed"):
            raise NoAnswerError(
                f"{path} can't be read there ({one_line(str(found.get('msg')))}): llama-benchy needs the model's own "
                "tokenizer in that form; take profile=load"
            )
        with as_read():
            content = base64.b64decode(str(found.get("content")), validate=True)
            if len(content) > _MOST_TOKENIZER_BYTES or not isinstance(json.loads(content), dict):
                raise ValueError(f"{path} is no tokenizer of at most {_MOST_TOKENIZER_BYTES >> 20} MiB")
        replace_file(folder / _TOKENIZER, content)

    def _measured(
        self, options: Mapping[str, Any], point: Point, folder: Path, variables: dict[str, object]
    ) -> dict[str, Any]:
        look = self.look(options["load"], variables)
        idle(look)
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="gb10-bench-") as own:
            file = Path(own) / "result.json"
            self._run_it(options, point, folder, file)
            if not file.is_file():
                raise NotWholeError("llama-benchy left no result")
            with whole():
                found = owner_measured(point, file.read_bytes())
        after = self.look(options["load"], variables)
        alone(look["before"], after["before"], found.pop("answered"), time.monotonic() - began)
        found["shown"] |= tokens_a_step(look["before"], after["before"])
        return {"seen": after["seen"], **found}

    def _run_it(self, options: Mapping[str, Any], point: Point, folder: Path, file: Path) -> None:
        owner, tool = options["owner"], Path(options["tool"])
        given = {
            "words": owner_words(point, owner["url"], owner["served"], str(folder), str(file)),
            "key": self._loader.get_text_file_contents(owner["key"]).strip() if owner["key"] else "",
            "seed": options["seed"],
            "book": options["book"],
        }
        # its book stays in the tool's own folder; a tokenizer that it can't read is not looked for in a hub
        variables = {"HOME": str(tool / "home"), "HF_HUB_OFFLINE": "1"}
        if owner["authority"]:
            variables["SSL_CERT_FILE"] = owner["authority"]
        try:
            done = subprocess.run(
                [str(tool / "bin" / "python"), "-I", str(PROGRAM)],
                input=json.dumps(given),
                env=os.environ | variables,
                capture_output=True,
                text=True,
                check=False,
                timeout=_RUN_S,
            )
        except subprocess.TimeoutExpired:
            raise NotWholeError(f"llama-benchy took more than {_RUN_S / 60:.0f} minutes") from None
        if done.returncode:
            printed = one_line(" ".join((done.stdout + done.stderr).split())[-_MOST_WORDS:])
            raise NotWholeError(f"llama-benchy ended with {done.returncode}: {printed}")
