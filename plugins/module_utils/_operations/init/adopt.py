# SPDX-License-Identifier: GPL-3.0-or-later
"""What serves on machines as declared services: a shipped recipe and what differs, or a recipe of what runs."""

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from ..._base.gb10 import fact
from ..._base.sizes import quantity, size
from ..._engines.declaration import RecipeData
from ..._engines.recipes.foreign import import_recipe
from ..._engines.recipes.recipe import Library
from ..._engines.registry import ENGINES
from ..._engines.vllm.text.image_facts import FAMILIES
from .reading import Reading, Serving
from .running import model_of

_START = {"vllm": "vllm serve", "sglang": "python3 -m sglang.launch_server", "llama-cpp": "llama-server"}
# Of a server without a container.
_IMAGES = {"vllm": fact("image", "reference"), "sglang": "lmsysorg/sglang:latest-cu130",
           "llama-cpp": fact("llama_cpp_image", "reference")}  # fmt: skip
_PORTS = {"vllm": 8000, "sglang": 30000, "llama-cpp": 8080, "trtllm": 8000}
_SIZES = {"max-model-len": "max_model_len", "max-num-seqs": "max_num_seqs"}
_SOURCE = "what ran, as gb10.fleet.init read it"
# Of a group's network: the plan makes these anew, of its cables.
_NETWORK = re.compile(
    r"(NCCL_(?!DEBUG|ALGO|PROTO)|UCX_|GLOO_|TP_SOCKET|MN_IF|OMPI_).*|VLLM_HOST_IP|HF_(HOME|HUB_CACHE)"
)
# vLLM's, of what tells how many ranks there are and which of them this is.
_SHORT = {"-n": "--nnodes", "-r": "--node-rank", "-tp": "--tensor-parallel-size", "-pp": "--pipeline-parallel-size",
          "-dp": "--data-parallel-size", "-dpl": "--data-parallel-size-local"}  # fmt: skip
# Findings of an import that say nothing to an owner of what runs.
_SILENT = ("import-planned", "import-config", "import-image")
_OUR_WAY = frozenset({"host", "port", "model", "model-path", "served-model-name", "config", "middleware", "api-key",
                      "allowed-media-domains", "revision", "hf-repo"})  # fmt: skip
_GROUPS = frozenset({"nnodes", "node-rank", "master-addr", "master-port", "headless", "tensor-parallel-size"})


@dataclass(frozen=True)
class Adopted:
    """service: as ``fleet_services`` has it. recipe: the owner's new one, None where a shipped one serves. notes: what
    goes over otherwise, and what does not. runs: the options of its head now. stops: how it is ended, by host."""

    service: Mapping[str, Any]
    recipe: RecipeData | None
    notes: Sequence[str]
    runs: Mapping[str, Any]
    stops: Mapping[str, str]


def adopted(readings: Mapping[str, Reading], library: Library) -> tuple[dict[str, Adopted], list[str]]:
    """Each server by the name of its service, the ranks of a group together; and sentences of what can't be one."""
    found: dict[str, Adopted] = {}
    notes: list[str] = []
    servers = [(host, item) for host, reading in sorted(readings.items()) for item in reading["serving"]]
    for head, one in servers:
        options = _options(one["words"])
        if _rank(options):
            continue
        model = model_of(one["words"])
        hosts, missing = _members(head, one, servers, readings)
        port = _port(one, options)[0]
        shown = f"{one['engine']} serves {model or 'a model'} on port {port}"
        notes.append(f"{', '.join(hosts)}: {shown}; nothing of it was touched")
        reason = _unfit(one, model, missing, f"{head}, port {port}")
        if reason:
            notes.append(reason)
            continue
        name = _slug(options.get("served-model-name", [""])[0] or one["folder"].rpartition("--")[2] or model, found)
        taken = _adopt(name, hosts, one, [other for host, other in servers if host in hosts[1:]], library)
        if isinstance(taken, str):
            notes.append(taken)
            continue
        found[name] = taken
    for host, reading in readings.items():
        for name, held in sorted(reading["beside"].items()):
            notes.append(f"{host}: {name} stays as it is and holds {size(held * 1024)}, which no plan counts")
    return found, notes


def _unfit(serving: Serving, model: str, missing: int, where: str) -> str:
    """Why a server can't be declared; empty where it can."""
    options = _options(serving["words"])
    if why := _apart(options, missing):
        return f"{where}: {why}"
    if any(
        re.search(r"\{[{%#]", text) for text in (model, serving["folder"], *serving["words"], *serving["env"].values())
    ):
        return f"{where}: its command holds what Ansible takes for a template; write it by hand"
    if serving["engine"] not in _START:
        return (
            f"{where}: a server of {serving['engine']} is not taken over; write it as docs/reference/engines.md shows"
        )
    if not model:
        variables = ", ".join(name for name in serving["env"] if name.startswith("LLAMA_ARG_"))
        place = _first(options, "config") or (f"variables ({variables})" if variables else "")
        options_in = f"its model and options stand in {place}" if place else "its command names no model"
        return f"{where}: {options_in}; write it by hand: docs/how-to/guide.md"
    if not _repository(serving, model):
        of_folder = f" (here {serving['folder']})" if serving["folder"] not in ("", model) else ""
        kind = "file" if model.endswith(".gguf") else "folder"
        return f"{where}: {model} is a {kind}{of_folder}; gb10.fleet.recipe_new makes a recipe of it"
    return ""


def _apart(options: Mapping[str, Sequence[str]], missing: int) -> str:
    """Why a server's ranks or its port can't be known; empty where they are."""
    if missing:
        return f"{missing} of its ranks run on hosts that were not read; name these, too: -e host=a,b"
    if _count(options, "data-parallel-size") > _count(options, "data-parallel-size-local", "data-parallel-size"):
        return "its data-parallel ranks run on several hosts; write a service with replicas: docs/how-to/guide.md"
    if "rpc" in options:
        return "rpc-server holds layers of it on other hosts; write a service by hand: docs/reference/engines.md"
    if "uds" in options:
        return "clients reach it by a file; ours takes a port: write the service by hand, and give clients its URL"
    own_port = _first(options, "port") == "0"
    return "it listens on a port of its own choice; start it with a fixed one, and run this again" if own_port else ""


def _repository(serving: Serving, model: str) -> str:
    """The hub's id of what it serves; of a folder of a cache by its name."""
    kept = re.search(r"/models--([\w.-]+?)--([\w.-]+)$", serving["folder"])
    named = f"{kept[1]}/{kept[2]}" if kept else model.partition(":")[0] if serving["engine"] == "llama-cpp" else model
    return named if re.fullmatch(r"[\w.-]+/[\w.-]+", named) else ""


def _options(words: Sequence[str]) -> dict[str, list[str]]:
    """The values of each option, by its long name."""
    found: dict[str, list[str]] = {}
    name = ""
    for short in words:
        word = _SHORT.get(short, short)
        if word.startswith("--"):
            name, is_set, value = word[2:].partition("=")
            name = name.replace("_", "-")
            found[name] = [value] if is_set else []
        elif name:
            found[name].append(word)
    return found


def _first(options: Mapping[str, Sequence[str]], *names: str) -> str:
    return next((options[name][0] for name in names if options.get(name)), "")


def _count(options: Mapping[str, Sequence[str]], *names: str) -> int:
    text = _first(options, *names)
    return int(text) if re.fullmatch(r"\d{1,5}", text) else 1


def _rank(options: Mapping[str, Sequence[str]]) -> bool:
    """Whether it is a rank that answers no client."""
    return "headless" in options or _first(options, "node-rank") not in ("", "0")


def _members(
    head: str, serving: Serving, servers: Iterable[tuple[str, Serving]], readings: Mapping[str, Reading]
) -> tuple[list[str], int]:
    """The hosts of a server, its head first, and how many of its ranks no host of this run has."""
    options = _options(serving["words"])
    wanted = _count(options, "nnodes")
    at = _master(options)
    mine = {*readings[head]["addresses"], head}
    if wanted > 1:
        ranks = []
        for host, other in servers:
            far = _options(other["words"])
            same = _master(far) in ({at} | mine if at else {"", *mine}) and other["engine"] == serving["engine"]
            if host != head and _rank(far) and same and _count(far, "nnodes") == wanted:
                ranks.append((_count(far, "node-rank"), host))
        return [head, *(host for _rank_of, host in sorted(ranks))], max(0, wanted - 1 - len(ranks))
    wanted = _count(options, "tensor-parallel-size", "tp") * _count(options, "pipeline-parallel-size", "pp")
    if wanted == 1:
        return [head], 0
    mates = [
        host
        for host, reading in sorted(readings.items())
        if host != head and mine & {ray["head"] for ray in reading["ray"]}
    ]
    return [head, *mates[: wanted - 1]], max(0, wanted - 1 - len(mates))


def _master(options: Mapping[str, Sequence[str]]) -> str:
    return _first(options, "master-addr", "dist-init-addr", "data-parallel-address").partition(":")[0]


def _port(serving: Serving, options: Mapping[str, Sequence[str]]) -> tuple[int, str]:
    """The port that clients use, and the address that it listens on alone, empty for all."""
    inside = _count(options, "port") if "port" in options else _PORTS[serving["engine"]]
    if not serving["closed"]:
        listen = {"localhost": "127.0.0.1"}.get(host := _first(options, "host"), host)
        return inside, listen if re.fullmatch(r"[\da-f.:]+", listen) and listen not in ("0.0.0.0", "::") else ""
    address, _, port = serving["published"].get(str(inside), f"127.0.0.1:{inside}").rpartition(":")
    return int(port) if port.isdecimal() else inside, address if address not in ("0.0.0.0", "::", "") else ""


def _adopt(
    name: str, hosts: Sequence[str], serving: Serving, others: Sequence[Serving], library: Library
) -> Adopted | str:
    repository = _repository(serving, model_of(serving["words"]))
    # a recipe of its own hides no shipped one
    imported, sentences = _imported(f"{name}-as-found" if name in library.recipes else name, repository, serving)
    if imported is None:
        return f"{hosts[0]}, {name}: can't be declared: {'; '.join(sentences)}"
    options = _options(serving["words"])
    flags: dict[str, Any] = {**imported["flags"]}
    runs = {option: (values[0] if len(values) == 1 else values or True) for option, values in options.items()} | flags
    flags.pop("download-dir", None)  # the plan has a store
    names = flags.pop("served-model-name", [])
    names = names if isinstance(names, list) else [names]
    workload = {ours: flags.pop(theirs) for theirs, ours in _SIZES.items() if theirs in flags}
    fixed = _first(options, "kv-cache-memory-bytes")
    pool = int(fixed) if re.fullmatch(r"\d{1,15}", fixed) else quantity(fixed) or 0
    workload |= {"pool": f"{pool >> 20}MiB"} if pool >> 20 else {}
    env = {key: value for key, value in imported["env"].items() if not (_NETWORK.fullmatch(key))}
    port, listen = _port(serving, options)
    notes = [*sentences]
    adapters = ENGINES[imported["engine"]].adapters(flags)
    own_files = [path for path in serving["paths"] if path in json.dumps(flags)]
    imported["mounts"] = [
        {"source": path, "target": path, "read_only": True} for path in own_files if path not in adapters
    ]
    recipe, own, differs = _recipe(imported, flags, env, repository, hosts, library, notes)
    image = _image(serving, hosts, own, imported["image"]["release"], recipe is None, notes)
    service = {
        "recipe": own["name"],
        "hosts": [*hosts],
        "port": port,
        **({"listen": listen} if listen else {}),
        "served_name": str(names[0]) if names else model_of(serving["words"]),
        **_model(serving, others, own, hosts, notes),
        **({"image": image} if image else {}),
        **({"workload": workload} if workload else {}),
        **differs,
    }
    notes += _of_start(serving, [str(more) for more in names[1:]])
    stops = dict.fromkeys(hosts, "end its member of the Ray cluster")
    ranks = zip(hosts, [serving, *others], strict=False)
    stops |= {host: rank["ends"] or "end it where it was started" for host, rank in ranks}
    return Adopted(service, recipe, notes, runs, stops)


def _imported(name: str, repository: str, serving: Serving) -> tuple[RecipeData | None, list[str]]:
    """What runs as a recipe, by the reader of other projects' recipes."""
    words = [word.replace("{", "{{").replace("}", "}}") for word in serving["words"]]
    theirs = {
        "recipe_version": "2",
        "model": repository,
        "container": serving["image"] or _IMAGES[serving["engine"]],
        "runtime": serving["engine"],
        "command": f"{_START[serving['engine']]} {shlex.join(words)}",
        "env": {**serving["env"]},
        "min_nodes": 1,
    }
    recipe, findings = import_recipe(theirs, name)
    if recipe is not None and serving["release"]:
        recipe["image"]["release"] = serving["release"]
    sentences = [finding.sentence() for finding in findings if finding.rule not in _SILENT]
    if recipe is not None:
        today = datetime.now(tz=UTC).strftime("%Y-%m")
        recipe["status"] = {"state": "reported", "by": "its owner", "when": today, "hardware": "where it was read"}
        recipe["sources"] = [_SOURCE]
        if "utilization" in recipe["memory"]:
            recipe["memory"]["utilization"]["source"] = _SOURCE
    return recipe, sentences


def _recipe(
    imported: RecipeData,
    flags: Mapping[str, object],
    env: Mapping[str, str | None],
    repository: str,
    hosts: Sequence[str],
    library: Library,
    notes: list[str],
) -> tuple[RecipeData | None, RecipeData, dict[str, Any]]:
    """The owner's new recipe, None with a shipped one; which of them serves; what the service has otherwise."""
    of_it = [recipe.data for recipe in library.recipes.values() if recipe.data["model"]["repository"] == repository]
    # what a service itself names needs no word of its owner's
    names_files = imported["mounts"] or "lora-modules" in flags
    data = next((item for item in of_it if _serves_so(item, imported, len(hosts)) and not names_files), None)
    if data is None:
        if of_it:
            others = ", ".join(sorted(item["name"] for item in of_it))
            notes.append(f"shipped for this model, by other images or for other hosts: {others}; compare them")
        own: RecipeData = {**imported, "flags": {**flags}, "env": {**env}, "host_counts": [len(hosts)]}
        return own, own, {}
    differs: dict[str, Any] = {}
    for key, mine, theirs in (("flags", data["flags"], flags), ("env", data["env"], env)):
        if other := {name: value for name, value in theirs.items() if mine.get(name, None) != value}:
            differs[key] = other
        if more := sorted({*mine} - {*theirs} - {*_SIZES}):
            notes.append(f"the recipe {data['name']} adds {', '.join(more)}; null among {key} takes one out")
    return None, data, differs


def _serves_so(recipe_data: RecipeData, imported: RecipeData, hosts: int) -> bool:
    """Whether a shipped recipe is for the image that runs, on so many hosts."""
    family = imported["image"]["family"]
    is_like = (recipe_data["engine"], recipe_data["image"]["family"]) == (
        imported["engine"],
        family,
    ) and family != FAMILIES[-1]
    return is_like and hosts in recipe_data["host_counts"] and recipe_data["status"]["state"] != "known-bad"


def _image(
    serving: Serving, hosts: Sequence[str], own: RecipeData, release: str | None, is_shipped: bool, notes: list[str]
) -> dict[str, Any]:
    """``image`` of a service, or into its new recipe."""
    if not serving["image"]:
        notes.append(f"it runs without a container; ours runs in {own['image'].get('reference')}")
        return {}
    image: dict[str, Any] = {}
    if own["image"].get("reference") != serving["image"]:
        image = {"reference": serving["image"]}
    if serving["digest"] and own["image"]["digest"] != serving["digest"]:
        image |= {"reference": serving["image"], "digest": serving["digest"]}
    if not serving["digest"]:
        image |= {"reference": serving["image"], "source": {"host": hosts[0]}}
        gives = f"; {hosts[0]} gives it to the others" if len(hosts) > 1 else ""
        notes.append(f"its image {serving['image']} is of no registry that {hosts[0]} knows{gives}")
    if is_shipped:
        return {**image, "release": None} if image and release is None else image
    own["image"].update(image)  # type: ignore[typeddict-item]
    return {}


def _model(
    serving: Serving, others: Sequence[Serving], own: RecipeData, hosts: Sequence[str], notes: list[str]
) -> dict[str, Any]:
    """``model`` of a service: the commit and the folder that are there."""
    if not serving["folder"]:
        notes.append("the folder of its weights was not found; site.yml brings them again")
        return {}
    found: dict[str, Any] = (
        {"revision": serving["commit"]} if serving["commit"] not in ("", own["model"]["revision"]) else {}
    )
    if len(hosts) == 1 or all(other["folder"] == serving["folder"] for other in others):
        found["source"] = {"path": serving["folder"]}
    else:
        notes.append(f"its weights lie in {serving['folder']} of {hosts[0]} alone; site.yml brings them to all")
    return {"model": found} if found else {}


def _of_start(serving: Serving, names: Sequence[str]) -> Iterator[str]:
    """What an owner would miss after it has gone over."""
    if names:
        yield f"its further names {', '.join(names)} don't go over: fleet_gateway.aliases gives them"
    if {"ssl-certfile", "ssl-keyfile"} & {*_options(serving["words"])}:
        yield "clients reach it by https; ours answers http, unless tls: local stands here"
    if serving["changed"]:
        shown = ", ".join(serving["changed"][:3])
        yield (
            f"{len(serving['changed'])} files in its container differ from its image ({shown}); they go when it ends: "
            "keep them with docker cp, and declare them as overlays"
        )
    keys = [name for name in serving["withheld"] if re.search(r"api[-_]?k", name, re.IGNORECASE)]
    if keys:
        yield "it asks clients for a key: write that key into a file and name it in api_key_file, or clients need ours"
    else:
        yield "it asks clients for no key; ours does, unless open: true stands here"
    others = [name for name in serving["withheld"] if name not in keys]
    if others:
        yield f"{', '.join(others)} may be secret and {'was' if len(others) == 1 else 'were'} not read"
    if not serving["returns"]:
        yield "nothing starts it after a reboot today; ours does"


def changes(runs: Mapping[str, object], planned: Mapping[str, object]) -> str:
    """What the command of a service has otherwise than the one that runs now, in one line."""
    mine = {name: value for name, value in planned.items() if name not in _OUR_WAY | _GROUPS and value is not None}
    theirs = {name: value for name, value in runs.items() if name not in _OUR_WAY | _GROUPS}
    found = [f"+{_word(name, mine[name])}" for name in sorted({*mine} - {*theirs})]
    found += [f"-{_word(name, theirs[name])}" for name in sorted({*theirs} - {*mine})]
    for name in sorted({*mine} & {*theirs}):
        now, then = ((quantity(item[name]) or _number(item[name])) for item in (theirs, mine))
        found += [f"{name} {theirs[name]} -> {mine[name]}"] if now != then else []
    return ", ".join(found)


def _number(value: object) -> object:
    return int(value) if isinstance(value, str) and re.fullmatch(r"\d{1,18}", value) else value


def _word(name: str, value: object) -> str:
    return name if value is True else f"{name} {value}"


def _slug(name: str, taken: Mapping[str, object]) -> str:
    slug = re.sub(r"[^a-z0-9]+", "-", name.rpartition("/")[2].lower()).strip("-")[:40].strip("-") or "model"
    return next(item for item in (slug, *(f"{slug[:37]}-{number}" for number in range(2, 1000))) if item not in taken)
