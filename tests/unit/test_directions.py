# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What may import what: packages depend in one direction, and only named files do I/O."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

UTILS = Path(__file__).parents[2] / "plugins" / "module_utils"
PREFIX = "ansible_collections.gb10.fleet.plugins.module_utils"

# Single files that know nothing of hosts, models or vLLM. Every package may import them.
GROUND = {
    "_causes",
    "_findings",
    "_foreign_files",
    "_gb10",
    "_layers",
    "_layout",
    "_managed",
    "_own_files",
    "_ranks",
    "_report",
    "_schema",
    "_secret_files",
    "_sizes",
    "_subject",
    "_yaml_text",
}
GROUND_MAY_IMPORT = {
    "_gb10": "_layers _yaml_text",
    "_managed": "_gb10",
    "_schema": "_findings _sizes",
    "_secret_files": "_findings",
    "_subject": "_findings _gb10 _managed _schema",
}

# package: the packages that it may import, lowest first; one that is not here imports the ground alone. A new arrow is
# a decision: it must not close a circle.
# An engine's own packages lie in its folder; what lies in the folder itself is behind the seam, `_engines`.
VLLM = "_engines/vllm"
MAY_IMPORT = {
    "_rank": "",  # copied to hosts as it is
    "_netplan": "",
    "_firewall": "_netplan _probe",
    "_bundle": "_drift _images _lock _models _phoenix _transfer _weights",
    "_joins": "",
    "_rollout": "",
    "_export": "",
    "_update": "_bench _preflight _probe _rollout _system _transfer",
    "_bench": "_probe _rank _transfer",
    "_tune": "_bench _engines _transfer",
    "_settings": "",
    "_transfer": "",
    "_fabric": "_netplan _probe",
    "_builds": "",
    "_images": "_builds _probe _transfer",
    "_weights": "_models _probe _transfer",
    "_lock": "_transfer",
    "_peers": "_images _models _probe _transfer _weights",
    "_models": "",
    f"{VLLM}/catalogue": "",
    "_memory": "",
    "_memory_guard": "",
    "_monitoring": "",
    "_phoenix": "",
    f"{VLLM}/text": f"{VLLM}/catalogue _memory",
    f"{VLLM}/kv": f"{VLLM}/catalogue _models",
    f"{VLLM}/rules": f"{VLLM}/catalogue {VLLM}/text _models",
    f"{VLLM}/lint": f"{VLLM}/catalogue {VLLM}/rules {VLLM}/text _models",
    "_engines": f"{VLLM}/catalogue {VLLM}/kv {VLLM}/lint {VLLM}/rules {VLLM}/text _fabric _memory _models _rank",
    "_recipes": f"_builds {VLLM}/catalogue {VLLM}/text _engines _models _weights",
    "_probe": "_settings _transfer",
    "_host": "_container_engine _fabric _firewall _gateway _images _peers _probe _services _tls _transfer _weights",
    "_host_tuning": "_settings",
    "_preflight": "_engines _probe _subjects",
    "_verify": "_engines _probe _rank _transfer",
    "_container_engine": "_probe _settings",
    "_tls": "_probe",
    "_tracing": "",
    "_pull": "",
    "_gateway": "_probe _tls",
    "_clients": "_gateway",
    "_services": "_probe _tracing",
    "_system": f"{VLLM}/text _probe",
    "_subjects": " ".join(sorted(path.parent.name for path in UTILS.glob("*/subject.py"))),
    "_undo": "_netplan _services _settings _transfer",
    "_drift": "_fabric _joins _netplan _probe _settings _subjects _system _transfer",
    "_doctor": "_container_engine _fabric _host _preflight _system",
    "_plan": "_clients _engines _fabric _firewall _gateway _host_tuning _lock _memory _memory_guard _models "
    "_monitoring _phoenix _recipes _subjects _tls _tracing _transfer",
}

# Modules that read or change the machine. pathlib's PurePath and urllib.parse only handle text.
IO_MODULES = {
    "ansible",
    "asyncio",
    "fcntl",
    "http",
    "os",
    "pathlib.Path",
    "select",
    "shutil",
    "signal",
    "socket",
    "ssl",
    "subprocess",
    "tempfile",
    "urllib.error",
    "urllib.request",
}
# Whatever is missing here is pure: plain data in, plain data out. package or file: why it does I/O.
IO = {
    "_base/gb10.py": "reads data/gb10.yml",
    "_base/foreign_files.py": "reads small files of recipes' authors and models' publishers",
    "_base/own_files.py": "reads and replaces what we keep, and moves it away when it is damaged",
    "_base/secret_files.py": "reads secrets on the controller",
    "_operations/bundle/build.py": "puts a bundle together",
    "_operations/bundle/check.py": "the paths of a bundle",
    "_operations/bundle/debs.py": "keeps apt's folders",
    "_operations/bundle/folder.py": "reads and writes a bundle's files",
    "_operations/bundle/images.py": "the folder that skopeo copies to",
    "_operations/bundle/models.py": "the store that hf downloads to",
    "_operations/bundle/programs.py": "runs programs that fetch",
    "_operations/bundle/signature.py": "runs GnuPG",
    "_operations/bundle/wheels.py": "reads wheels and artifacts",
    "_operations/bench/load.py": "runs a load generator on the host",
    "_subjects/container_engine/reading.py": "reads Docker's settings",
    "_engines/vllm/catalogue/extract.py": "reads a checkout of vLLM",
    "_engines/vllm/catalogue/image.py": "reads vLLM's source out of an image",
    "_engines/vllm/catalogue/releases.py": "reads and writes data/vllm_catalogue",
    "_engines/vllm/catalogue/source.py": "reads a checkout of vLLM",
    "_subjects/fabric/arp.py": "sends ARP probes",
    "_on_host/gids.py": "reads /sys; copied to hosts",
    "_subjects/fabric/reading.py": "reads /sys",
    "_subjects/firewall/host.py": "reads and writes the host's rules",
    "_operations/verify/ranks.py": "reads the supervisors' files",
    "_operations/verify/service.py": "reads the supervisors' files",
    "_subjects/firewall/reading.py": "reads the host's rules",
    "_subjects/clients/declared.py": "reads whether the clients' keys and secrets are on the controller",
    "_subjects/gateway/declared.py": "reads the clients' keys on the controller",
    "_subjects/phoenix/declared.py": "reads whether the key is on the controller",
    "_subjects/monitoring/declared.py": "reads the owner's URLs on the controller",
    "_on_host/textfile.py": "reads the host; copied to hosts",
    "_subjects/gateway/reading.py": "asks HAProxy, and when files changed",
    "_subjects/state.py": "reads the host",
    "_on_host/memory_guard.py": "watches the host's memory; copied to hosts",
    "_stores/lock/file.py": "reads and writes the lock beside the inventory",
    "_base/managed.py": "reads the collection's own files",
    "_images": "asks Docker and registries, writes layers",
    "_engines/vllm/kv/case.py": "reads config.json where a path is given",
    "_on_host/netplan/guard.py": "changes the network and takes it back; copied to hosts",
    "_host/netplan/judge.py": "the paths of netplan's files",
    "_on_host/netplan/links.py": "asks ip and networkctl",
    "_on_host/netplan/record.py": "keeps the record of a change; copied to hosts",
    "_host/netplan/ssh_session.py": "reads /proc",
    "_host/netplan/staging.py": "prepares a change on the host",
    "_peers": "serves a host's files to its peers",
    "_plan/keys.py": "reads key files on the controller",
    "_plan/declared.py": "the paths of archives beside the inventory",
    "_engines/observed.py": "reads what verify wrote beside the inventory",
    "_probe": "reads the host",
    "_rank": "supervises a rank on its host",
    "_engines/recipes/kept_models.py": "reads models' files, and keeps what they say beside the inventory",
    "_engines/recipes/recipe.py": "reads recipes and their configs",
    "_subjects/services/reading.py": "reads our units' files",
    "_on_host/trial.py": "puts a service's files back; copied to hosts",
    "_host/settings/kernel_settings.py": "reads and writes /proc/sys and /sys",
    "_stores/transfer/fetch.py": "fetches from peers",
    "_stores/transfer/peer.py": "runs ssh",
    "_stores/transfer/places.py": "paths of parts under way",
    "_stores/transfer/spool.py": "writes parts",
    "_base/staging.py": "locks and free space",
    "_engines/tracing/declared.py": "the headers for a collector on the controller",
    "_subjects/tls/declared.py": "the paths of certificates on the controller",
    "_subjects/tls/reading.py": "reads the certificates of services",
    "_operations/verify/tables.py": "the terminal's width",
    "_operations/undo/record.py": "keeps what was on a host before us",
    "_operations/update/change.py": "updates a host, and puts it back",
    "_operations/update/look.py": "reads what an update would change",
    "_operations/undo/survey.py": "reads a host, and puts it back",
    "_engines/llama_cpp/catalogue.py": "reads data/llama_cpp_catalogue.json",
    "_engines/sglang/catalogue.py": "reads data/sglang_catalogue.json",
    "_engines/trtllm/catalogue.py": "reads data/trtllm_catalogue.json",
    "_on_host/api_key.py": "reads the middleware that containers mount",
    "_engines/vllm/text/image_facts.py": "reads data/vllm_images.yml",
    "_facts/models/facts.py": "reads data/vllm_models.yml",
    "_weights": "reads and writes the model store",
}


def package(name: str) -> str:
    """The package or the single file directly below module_utils, of a dotted name or a relative path."""
    parts = name.replace("/", ".").split(".")
    own = "/".join(parts[:3])
    return own if own in MAY_IMPORT else parts[0]


def imported(path: Path) -> Iterator[str]:
    """Dotted names of all that a file imports, also inside functions. Ours are relative to module_utils."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        yield from (name.removeprefix(f"{PREFIX}.") for name in names)


FILES = {str(path.relative_to(UTILS)): sorted(set(imported(path))) for path in sorted(UTILS.rglob("*.py"))}
PACKAGES = sorted({package(name) for name in FILES})


def arrows(name: str) -> set[str]:
    """The other packages that a package's files import."""
    names = {package(found) for file, imports in FILES.items() if package(file) == name for found in imports}
    return names.intersection(PACKAGES) - {name}


def io_of(file: str) -> list[str]:
    return [name for name in FILES[file] if any(f"{name}.".startswith(f"{module}.") for module in IO_MODULES)]


@pytest.mark.parametrize("name", PACKAGES)
def test_a_package_imports_only_what_lies_below_it(name: str) -> None:
    allowed = GROUND_MAY_IMPORT.get(name, "") if name in GROUND else MAY_IMPORT.get(name, "")
    assert arrows(name) - (set() if name in GROUND else GROUND) <= set(allowed.split())


def test_no_circles() -> None:
    """Packages are taken away as long as one has all that it may import taken away before it."""
    left = {name: set(allowed.split()) for name, allowed in MAY_IMPORT.items()}
    while ready := [name for name, allowed in left.items() if not allowed.intersection(left)]:
        for name in ready:
            del left[name]
    assert not left


@pytest.mark.parametrize("file", [file for file in FILES if not {file, package(file)}.intersection(IO)])
def test_what_is_not_named_above_is_pure(file: str) -> None:
    assert not io_of(file)


@pytest.mark.parametrize("name", IO)
def test_each_exception_is_needed(name: str) -> None:
    assert any(io_of(file) for file in FILES if name in (file, package(file)))
