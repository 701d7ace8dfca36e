# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What may import what: packages depend in one direction, and only named files do I/O."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

UTILS = Path(__file__).parents[2] / "plugins" / "module_utils"
PREFIX = "ansible_collections.gb10.fleet.plugins.module_utils"

# Nine floors, lowest first: what lies in one imports from its own and from those below it. The public face is on top.
FLOORS = ["_base", "_on_host", "_facts", "_host", "_stores", "_engines", "_subjects", "_plan", "_operations", "api"]
# What lies in a floor, and what else of the same floor it may import. One that is not here imports nothing of its floor
# but itself. A new arrow is a decision: it must not close a circle. Of `_base` it is files, elsewhere packages; a
# floor's own files are a package of the floor's name.
VLLM = "_engines/vllm"
INSIDE = {
    "_base/faults": "_base/received _base/subject",
    "_base/gb10": "_base/layout _base/layers _base/yaml_text",
    "_base/forms": "_base/gb10 _base/schema _base/yaml_text",
    "_base/managed": "_base/gb10 _base/slice",
    "_base/owned": "_base/layout",
    "_base/received": "_base/place _base/schema",
    "_base/findings": "_base/place",
    "_base/schema": "_base/findings _base/place _base/sizes",
    "_base/addresses": "_base/findings _base/place _base/worded",
    "_base/reading": "_base/received _base/typed",
    "_base/secret_files": "_base/findings _base/place",
    "_base/staging": "_base/findings _base/layout _base/own_files _base/sizes",
    "_base/plan": "_base/slice",
    "_base/ranks": "_base/plan _base/slice",
    "_base/slice": "_base/declared_host _base/typed",
    "_base/proofs": "_base/findings _base/gb10 _base/yaml_text",
    "_base/subject": "_base/declared_host _base/findings _base/gb10 _base/managed _base/place _base/plan "
    "_base/ranks _base/reading _base/received _base/schema _base/slice _base/worded",
    "_base/worded": "_base/findings _base/gb10 _base/place _base/received _base/yaml_text",
    "_base/typed": "_base/schema",
    "_host/probe": "_host/settings",
    "_stores/images": "_stores/transfer",
    "_stores/weights": "_stores/transfer",
    "_stores/lock": "",
    "_stores/peers": "_stores/images _stores/transfer _stores/weights",
    f"{VLLM}/text": f"{VLLM}/catalogue _engines/memory",
    f"{VLLM}/kv": f"{VLLM}/catalogue",
    f"{VLLM}/rules": f"{VLLM}/catalogue {VLLM}/text",
    f"{VLLM}/lint": f"{VLLM}/catalogue {VLLM}/rules {VLLM}/text",
    # the seam, and the engines behind it
    "_engines": f"{VLLM}/catalogue {VLLM}/kv {VLLM}/lint {VLLM}/rules {VLLM}/text _engines/memory",
    "_engines/recipes": f"{VLLM}/catalogue {VLLM}/text _engines",
    "_engines/speed": "_engines",
    "_engines/tracing": "_engines",
    "_subjects/firewall": "_subjects/fabric",
    "_subjects/health": "_subjects/system",
    "_subjects/gateway": "_subjects/fleet _subjects/tls",
    "_subjects/clients": "_subjects/fleet _subjects/gateway _subjects/tls",
    "_subjects/memory_guard": "_subjects/fleet",
    "_subjects/monitoring": "_subjects/fleet _subjects/memory_guard",
    "_subjects/phoenix": "_subjects/fleet",
    "_plan": "",
    "_operations": "_operations/drift",
    "_operations/bundle": "_operations/drift",
    "_operations/doctor": "_operations/bench _operations/init",
    "_operations/tune": "_operations/bench",
    "_operations/update": "_operations/bench _operations/rollout",
}
# The registry and the reading of a host name every subject.
INSIDE["_subjects"] = " ".join(f"_subjects/{path.parent.name}" for path in UTILS.glob("_subjects/*/__init__.py"))
OF_THE_SEAM = {"_engines/llama_cpp", "_engines/sglang", "_engines/trtllm", "_engines/vllm"}

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
    "_base/gb10.py": "reads data/gb10.yml, data/tables.yml, data/alerts.yml",
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
    "_engines/vllm/catalogue/image.py": "reads vLLM's source out of an image",
    "_engines/vllm/catalogue/releases.py": "reads and writes data/vllm_catalogue",
    "_engines/vllm/catalogue/source.py": "reads a checkout of vLLM",
    "_on_host/gids.py": "reads /sys; copied to hosts",
    "_subjects/fabric/reading.py": "reads /sys, and sends ARP probes",
    "_subjects/firewall/host.py": "reads and writes the host's rules",
    "_operations/verify/asked.py": "asks an endpoint, word by word",
    "_operations/verify/service.py": "reads the supervisors' files",
    "_operations/verify/starts.py": "reads what a host keeps of starts",
    "_subjects/firewall/reading.py": "reads the host's rules",
    "_subjects/clients/declared.py": "reads whether the clients' keys and secrets are on the controller",
    "_subjects/phoenix/declared.py": "reads whether the key is on the controller",
    "_subjects/monitoring/declared.py": "reads the owner's URLs on the controller",
    "_on_host/textfile.py": "reads the host; copied to hosts",
    "_subjects/services/starts.py": "reads how long the last start took",
    "_subjects/services/supervisors.py": "reads which supervisors a host uses",
    "_subjects/gateway/reading.py": "asks HAProxy, and when files changed",
    "_subjects/state.py": "reads the host",
    "_subjects/health/reading.py": "reads how starts ended, and the kernel's lines",
    "_on_host/memory_guard.py": "watches the host's memory; copied to hosts",
    "_stores/lock/file.py": "reads and writes the lock beside the inventory",
    "_base/managed.py": "reads the collection's own files",
    "_stores/images": "asks Docker and registries, writes layers",
    "_engines/vllm/kv/case.py": "reads config.json where a path is given",
    "_on_host/netplan/guard.py": "changes the network and takes it back; copied to hosts",
    "_host/netplan/judge.py": "the paths of netplan's files",
    "_on_host/netplan/links.py": "asks ip and networkctl",
    "_on_host/netplan/record.py": "keeps the record of a change; copied to hosts",
    "_host/netplan/ssh_session.py": "reads /proc",
    "_host/netplan/staging.py": "prepares a change on the host",
    "_stores/peers": "serves a host's files to its peers",
    "_plan/keys.py": "reads key files on the controller",
    "_plan/sources.py": "the paths of what lies beside the inventory",
    "api.py": "takes folders of recipes",
    "_plan/declared.py": "the folder of the inventory",
    "_plan/declared_services.py": "the folder of the inventory",
    "_plan/inventory_files.py": "the paths of an inventory's files",
    "_subjects/fleet/subject.py": "the folder of the inventory",
    "_engines/observed.py": "reads what verify wrote beside the inventory",
    "_host/probe": "reads the host",
    "_on_host/rank": "supervises a rank on its host",
    "_engines/recipes/kept_models.py": "reads models' files, and keeps what they say beside the inventory",
    "_engines/recipes/shelf.py": "reads what was taken of sources",
    "_engines/recipes/recipe.py": "reads recipes and their configs",
    "_engines/recipes/overlays.py": "reads the files that a recipe lays over others",
    "_subjects/services/reading.py": "reads our units' files",
    "_on_host/trial.py": "puts a service's files back; copied to hosts",
    "_host/settings/kernel_settings.py": "reads and writes /proc/sys and /sys",
    "_stores/transfer/fetch.py": "fetches from peers",
    "_stores/transfer/modules.py": "names where its module reports progress",
    "_stores/transfer/peer.py": "runs ssh",
    "_stores/transfer/places.py": "paths of parts under way",
    "_stores/transfer/spool.py": "writes parts",
    "_base/staging.py": "locks and free space",
    "_engines/tracing/declared.py": "the headers for a collector on the controller",
    "_subjects/tls/declared.py": "the paths of certificates on the controller",
    "_subjects/tls/clients_view.py": "proves a certificate as clients do",
    "_subjects/tls/reading.py": "reads the certificates of services",
    "_operations/verify/tables.py": "the terminal's width",
    "_operations/undo/record.py": "keeps what was on a host before us",
    "_operations/update/change.py": "updates a host, and puts it back",
    "_operations/update/look.py": "reads what an update would change",
    "_operations/undo/survey.py": "reads a host, and puts it back",
    "_operations/init/look.py": "looks for machines, and logs into them",
    "_operations/init/running.py": "reads what serves on a host",
    "_subjects/fabric/peers_seen.py": "sends and receives raw frames",
    "_engines/llama_cpp/catalogue.py": "reads data/llama_cpp_catalogue.json",
    "_engines/sglang/catalogue.py": "reads data/sglang_catalogue.json",
    "_engines/trtllm/catalogue.py": "reads data/trtllm_catalogue.json",
    "_on_host/api_key.py": "reads the middleware that containers mount",
    "_engines/vllm/text/image_facts.py": "reads data/vllm_images.yml",
    "_facts/models/facts.py": "reads data/vllm_models.yml",
    "_stores/weights": "reads and writes the model store",
}


def package(name: str) -> str:
    """The package of a relative path or a dotted name of a module: of `_base` the file."""
    parts = name.removesuffix(".py").removesuffix("/__init__").replace("/", ".").split(".")
    if parts[0] == "_base":
        return "/".join(parts[:2])
    depth = 3 if parts[:2] == ["_engines", "vllm"] else 2
    while depth > 1 and not (UTILS / "/".join(parts[:depth])).is_dir():
        depth -= 1
    own = "/".join(parts[:depth])
    return parts[0] if own in OF_THE_SEAM else own


def imported(path: Path) -> Iterator[str]:
    """Dotted names of all that a file imports, also inside functions. Ours are relative. What a file that is copied to
    hosts names for the type check alone is no import there."""
    here = path.relative_to(UTILS).parts
    tree = ast.parse(path.read_text())
    if here[0] == "_on_host":
        tree.body = [
            one for one in tree.body if not isinstance(one, ast.If) or "TYPE_CHECKING" not in ast.dump(one.test)
        ]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = ".".join(here[: -node.level]) if node.level else ""
            module = ".".join(part for part in (above, node.module) if part)
            names = [f"{module}.{alias.name}" for alias in node.names]
        else:
            continue
        assert not any(name.startswith(PREFIX) for name in names), f"{path}: relatively, please: {names}"
        yield from names


FILES = {str(path.relative_to(UTILS)): sorted(set(imported(path))) for path in sorted(UTILS.rglob("*.py"))}
PACKAGES = sorted({package(name) for name in FILES})


def floor(name: str) -> str:
    return name.replace(".", "/").partition("/")[0]


def arrows(name: str) -> set[str]:
    """The other packages that a package's files import."""
    names = {package(found) for file, imports in FILES.items() if package(file) == name for found in imports}
    return names.intersection(PACKAGES) - {name}


def io_of(file: str) -> list[str]:
    return [name for name in FILES[file] if any(f"{name}.".startswith(f"{module}.") for module in IO_MODULES)]


def test_there_are_nine_floors_and_their_public_face() -> None:
    assert sorted(path.stem for path in UTILS.iterdir() if path.name != "__pycache__") == sorted(FLOORS)


@pytest.mark.parametrize("name", PACKAGES)
def test_a_package_imports_only_what_lies_below_it(name: str) -> None:
    place = FLOORS.index(floor(name))
    assert [other for other in arrows(name) if FLOORS.index(floor(other)) > place] == []
    inside = {other for other in arrows(name) if floor(other) == floor(name)}
    assert inside <= set(INSIDE.get(name, "").split())


def test_no_circles() -> None:
    """Packages are taken away as long as one has all that it may import taken away before it."""
    left = {name: set(allowed.split()) for name, allowed in INSIDE.items()}
    while ready := [name for name, allowed in left.items() if not allowed.intersection(left)]:
        for name in ready:
            del left[name]
    assert not left


@pytest.mark.parametrize("file", [file for file in FILES if file.startswith("_on_host/")])
def test_what_is_copied_to_hosts_imports_nothing_that_stays_behind(file: str) -> None:
    """Python's standard library, and what lies beside it."""
    folder = file.rpartition("/")[0].replace("/", ".")
    ours = [name for name in FILES[file] if name.startswith("_") and not name.startswith("__")]
    assert [name for name in ours if folder == "_on_host" or not name.startswith(f"{folder}.")] == []
    assert not any(name.startswith(("ansible", "yaml")) for name in FILES[file])


@pytest.mark.parametrize("file", [file for file in FILES if not {file, package(file)}.intersection(IO)])
def test_what_is_not_named_above_is_pure(file: str) -> None:
    assert not io_of(file)


@pytest.mark.parametrize("name", IO)
def test_each_exception_is_needed(name: str) -> None:
    assert any(io_of(file) for file in FILES if name in (file, package(file)))


# Names that a library calls.
OF_LIBRARIES = {"readinto", "descend_resolver", "ascend_resolver", "get_single_data", "ignore_aliases"}
OF_ANSIBLE = {
    "ActionModule",
    "CallbackModule",
    "FilterModule",
    "InventoryModule",
    "LookupModule",
    "ModuleDocFragment",
    "DOCUMENTATION",
    "EXAMPLES",
    "RETURN",
}


def defined(path: Path) -> Iterator[str]:
    """Functions and classes without a decorator, which may register them, and constants of a file."""
    tree = ast.parse(path.read_text("utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and not node.decorator_list:
            yield node.name
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (target.id for target in targets if isinstance(target, ast.Name))


def test_no_name_is_dead() -> None:
    """What only its own line and tests name does nothing for an owner."""
    root = UTILS.parents[1]
    files = [*(root / "plugins").rglob("*.py")]
    others = (path for name in ("roles", "playbooks", "tools") for path in (root / name).rglob("*") if path.is_file())
    counted = Counter(
        word
        for path in [*files, *others]
        if path.suffix in (".py", ".yml", ".j2", ".service")
        for word in re.findall(r"\w+", path.read_text("utf-8"))
    )
    dead = [
        f"{path.relative_to(root)}: {name}"
        for path in sorted(files)
        for name in defined(path)
        if counted[name] == 1 and name not in OF_LIBRARIES | OF_ANSIBLE and not name.startswith(("__", "v2_"))
    ]
    assert dead == []


def test_what_bears_without_a_package_evaluates_no_type_of_it() -> None:
    """Its names are missing then: an annotation would end the import with a NameError instead of a sentence."""
    missing = re.compile(
        r"^try:\n(?:    .*\n)+except (ImportError|ModuleNotFoundError)[^\n]*\n(?:    #[^\n]*\n)*    pass$", re.MULTILINE
    )
    texts = {path: path.read_text("utf-8") for path in UTILS.parent.rglob("*.py")}
    lacking = [path for path, text in texts.items() if missing.search(text) and "import annotations" not in text]
    assert lacking == []


def named(page: str) -> set[str]:
    """What stands in code on a page, and of a path its parts."""
    text = re.sub(r"```.*?```", "", page, flags=re.DOTALL)
    words = {word for code in re.findall(r"`([^`]+)`", text) for word in re.split(r"[/, ]+", code)}
    return words | {word.partition(".")[0] for word in words} | {word.rpartition(".")[0] for word in words}


def test_the_architecture_names_each_package_module_data_file_suite_and_tool() -> None:
    """Packages' `__init__.py` are empty, as Ansible wants them: it sends each to hosts with what is imported."""
    root = UTILS.parents[1]
    page = (root / "docs" / "explanation" / "architecture.md").read_text("utf-8")
    packages = {str(file.parent.relative_to(UTILS)) for file in UTILS.glob("*/**/__init__.py")}
    assert {package for package in packages if f"`{package}`" not in page} == set()
    files = [*root.glob("plugins/modules/*.py"), *root.glob("data/*.*"), *root.glob("tools/*.py")]
    files += [*root.glob("tests/tools/*.py"), *UTILS.glob("_*/**/[a-z]*.py"), *root.glob("plugins/plugin_utils/*.py")]
    suites = [path for path in root.glob("tests/*") if any(path.glob("*.py")) and path.name not in ("unit", "tools")]
    assert {path.stem for path in (*files, *suites)} - named(page) == set()
