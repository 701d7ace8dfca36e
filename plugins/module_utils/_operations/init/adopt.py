# SPDX-License-Identifier: GPL-3.0-or-later
"""What serves on machines as declared services: a shipped recipe and what differs, or a recipe of what runs."""

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from ..._base.gb10 import data_table, fact
from ..._base.place import Place
from ..._base.sizes import quantity, size
from ..._engines.declaration import RecipeData
from ..._engines.llama_cpp.words import read_flags as llama_flags
from ..._engines.normal_form import normal_options
from ..._engines.recipes.foreign import import_recipe
from ..._engines.recipes.foreign_python import RUNTIMES
from ..._engines.recipes.recipe import Library
from ..._engines.registry import ENGINES
from ..._engines.sglang.catalogue import PIPELINE, TENSOR
from ..._engines.vllm.catalogue.releases import load
from ..._engines.vllm.text.flags import read_flags as vllm_flags
from ..._engines.vllm.text.image_facts import FAMILIES
from .reading import Reading, Serving
from .running import model_of

_START: Mapping[str, str] = data_table("adopt_starts")
_PORTS: Mapping[str, int] = data_table("adopt_ports")
_WORDS: Mapping[str, str] = data_table("adopt_words")
# Of a server without a container.
_IMAGES = {"vllm": fact("image", "reference"), "sglang": "lmsysorg/sglang:latest-cu130",
           "llama-cpp": fact("llama_cpp_image", "reference"),
           "trtllm": "nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc13"}  # fmt: skip
_SIZES = {theirs: ours for name in ("vllm", "sglang", "trtllm") for ours, theirs in ENGINES[name].spec.workload.items()}
_SOURCE = "what ran, as gb10.fleet.init read it"
# Of a group's network: the plan makes these anew, of its cables.
_NETWORK = re.compile(
    r"(NCCL_(?!DEBUG|ALGO|PROTO)|UCX_|GLOO_|TP_SOCKET|MN_IF|OMPI_).*|VLLM_HOST_IP|HF_(HOME|HUB_CACHE)|LLAMA_ARG_(PORT|HOST)"
)
# Findings of an import that say nothing to an owner of what runs.
_SILENT = ("import-planned", "import-config", "import-image")
_OUR_WAY = frozenset(data_table("adopt_our_way"))
_GROUPS = frozenset({"nnodes", "node-rank", "master-addr", "master-port", "headless", *TENSOR})
_NAMES = ("served-model-name", "alias")
_DEEPEST = 64


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
        options = _options(one)
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
        name = _slug(_first(options, *_NAMES) or one["folder"].rpartition("--")[2] or model, found)
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
    options = _options(serving)
    local = _count(options, "data-parallel-size-local", "data-parallel-size")
    apart = "data-parallel-rank" in options or _count(options, "data-parallel-size") > local
    texts = (model, serving["folder"], *serving["words"], *serving["env"].values())
    variables = ", ".join(name for name in serving["env"] if name.startswith("LLAMA_ARG_"))
    rows = (
        ("ranks", missing),
        ("data-parallel", apart),
        ("rpc", "rpc" in options),
        ("uds", "uds" in options),
        ("own-port", _first(options, "port") == "0"),
        ("deep", any(map(_is_deep, serving["words"]))),
        ("hidden", serving["by"] == "hidden"),
        ("template", any(re.search(r"\{[{%#]", text) for text in texts)),
        ("config", not model and "config" in options),
        ("variables", not model and variables),
        ("no-model", not model),
        ("part", serving["engine"] == "trtllm" and re.fullmatch(r"disaggregated\w*|mm_embedding_serve", model)),
        ("elsewhere", "://" in model),
        ("quantized", re.fullmatch(r"[\w.-]+/[\w.-]+:[\w.-]+", model) and not _repository(serving, model)),
        ("file", not _repository(serving, model) and model.endswith(".gguf")),
        ("folder", not _repository(serving, model)),
    )
    here = f" (here {serving['folder']})" if serving["folder"] not in ("", model) else ""
    words = {"missing": missing, "model": model, "here": here, "variables": variables}
    why = next((_WORDS[name].format(**words, config=_first(options, "config")) for name, holds in rows if holds), "")
    return f"{where}: {why}" if why else ""


def _repository(serving: Serving, model: str) -> str:
    """The hub's id of what it serves; of a folder of a cache by its name."""
    kept = re.search(r"/models--([\w.-]+?)--([\w.-]+)$", serving["folder"])
    if serving["engine"] == "llama-cpp":  # its -m is a file, whatever it looks like
        model = _first(_options(serving), "hf-repo").partition(":")[0]
    named = f"{kept[1]}/{kept[2]}" if kept else model
    return named if re.fullmatch(r"[\w.-]+/[\w.-]+", named) else ""


def _options(serving: Serving) -> dict[str, Any]:
    """Its options by their long names, as its engine reads them."""
    words = [word for word in serving["words"] if not _is_deep(word)]
    if serving["engine"] == "llama-cpp":
        return llama_flags(words)
    if runtime := RUNTIMES.get(serving["engine"]):
        return runtime.read(words)
    return normal_options(vllm_flags(words, load())[1], Place())[0]


def _is_deep(word: str) -> bool:
    """Whether its parts lie in each other as no engine's do: a hostile host's, which nobody can write out."""
    return word.partition("=")[0].count(".") > _DEEPEST or word.count("{") + word.count("[") > _DEEPEST


def _first(options: Mapping[str, object], *names: str) -> str:
    values = (value[0] if isinstance(value := options.get(name), list) and value else value for name in names)
    return next((str(value) for value in values if not isinstance(value, bool | list | None)), "")


def _count(options: Mapping[str, object], *names: str) -> int:
    text = _first(options, *names)
    return int(text) if re.fullmatch(r"\d{1,5}", text) else 1


def _rank(options: Mapping[str, object]) -> bool:
    """Whether it is a rank that answers no client."""
    return "headless" in options or _first(options, "node-rank") not in ("", "0")


def _members(
    head: str, serving: Serving, servers: Iterable[tuple[str, Serving]], readings: Mapping[str, Reading]
) -> tuple[list[str], int]:
    """The hosts of a server, its head first, and how many of its ranks no host of this run has."""
    options = _options(serving)
    wanted = _count(options, "nnodes")
    at = _master(options)
    mine = {*readings[head]["addresses"], head}
    if wanted > 1:
        ranks = []
        for host, other in servers:
            far = _options(other)
            same = _master(far) in ({at} | mine if at else {"", *mine}) and other["engine"] == serving["engine"]
            if host != head and _rank(far) and same and _count(far, "nnodes") == wanted:
                ranks.append((_count(far, "node-rank"), host))
        return [head, *(host for _rank_of, host in sorted(ranks))], max(0, wanted - 1 - len(ranks))
    wanted = _count(options, *TENSOR) * _count(options, *PIPELINE)
    if wanted == 1:
        return [head], 0
    mates = [
        host
        for host, reading in sorted(readings.items())
        if host != head and mine & {ray["head"] for ray in reading["ray"]}
    ]
    return [head, *mates[: wanted - 1]], max(0, wanted - 1 - len(mates))


def _master(options: Mapping[str, object]) -> str:
    return _first(options, "master-addr", "dist-init-addr", "data-parallel-address").partition(":")[0]


def _port(serving: Serving, options: Mapping[str, object]) -> tuple[int, str]:
    """The port that clients use, and the address that it listens on alone, empty for all."""
    inside = _inside(serving, options)
    if not serving["closed"]:
        host = _first(options, "host") or serving["env"].get("LLAMA_ARG_HOST", "")
        listen = {"localhost": "127.0.0.1"}.get(host, host)
        return inside, listen if re.fullmatch(r"[\da-f.:]+", listen) and listen not in ("0.0.0.0", "::") else ""
    address, _, port = serving["published"].get(str(inside), f"127.0.0.1:{inside}").rpartition(":")
    return int(port) if port.isdecimal() else inside, address if address not in ("0.0.0.0", "::", "") else ""


def _inside(serving: Serving, options: Mapping[str, object]) -> int:
    """The port that it listens on, in its container where it has a network of its own."""
    text = _first(options, "port") or serving["env"].get("LLAMA_ARG_PORT", "")
    return int(text) if re.fullmatch(r"\d{1,5}", text) else _PORTS[serving["engine"]]


def _adopt(
    name: str, hosts: Sequence[str], serving: Serving, others: Sequence[Serving], library: Library
) -> Adopted | str:
    repository = _repository(serving, model_of(serving["words"]))
    # a recipe of its own hides no shipped one
    imported, sentences = _imported(f"{name}-as-found" if name in library.recipes else name, repository, serving)
    if imported is None:
        return f"{hosts[0]}, {name}: can't be declared: {'; '.join(sentences)}"
    options = _options(serving)
    flags: dict[str, Any] = {**imported["flags"]}
    runs = options | flags
    flags.pop("download-dir", None)  # the plan has a store
    flags.pop("served-model-name", None)
    names: Any = next((options[name] for name in _NAMES if name in options), [])
    names = names if isinstance(names, list) else str(names).split(",") if "alias" in options else [names]
    workload = {ours: flags.pop(theirs) for theirs, ours in _SIZES.items() if theirs in flags}
    fixed = _first(options, "kv-cache-memory-bytes")
    pool = int(fixed) if re.fullmatch(r"\d{1,15}", fixed) else quantity(fixed) or 0
    workload |= {"pool": f"{pool >> 20}MiB"} if pool >> 20 else {}
    env = {key: value for key, value in imported["env"].items() if not (_NETWORK.fullmatch(key))}
    port, listen = _port(serving, options)
    notes = [*sentences]
    if scope := [name for name in env if name.endswith("_USE_MODELSCOPE")]:
        is_scope = str(env.pop(scope[0])).lower() in ("1", "true")
        notes += [_WORDS["modelscope"].format(repository=repository)] if is_scope else []
    release = imported["image"]["release"] or ""
    if imported["image"]["family"] == "upstream" and imported["engine"] == "vllm" and release in load().releases:
        idle = sorted({name for name in env if name.startswith("VLLM_")} - {*load().release(release).variables})
        notes += [f"vLLM {release} ignores {', '.join(idle)}, so it stays out"] if idle else []
        env = {name: value for name, value in env.items() if name not in idle}
    engine = ENGINES[imported["engine"]]
    adapters, asks_for_key = engine.adapters(flags), bool(engine.spec.key.target)
    own_files = [path for path in serving["paths"] if path in json.dumps(flags)]
    imported["mounts"] = [
        {"source": source, "target": target, "read_only": True}
        for target, source in [*zip(own_files, own_files, strict=True), *serving["over"].items()]
        if target not in adapters
    ]
    recipe, own, differs = _recipe(imported, flags, env, repository, hosts, library, notes)
    image = _image(serving, hosts, own, imported["image"]["release"], recipe is None, notes)
    service = {
        "recipe": own["name"],
        "hosts": [*hosts],
        "port": port,
        **({"listen": listen} if listen else {}),
        # without a key it has no name of its own either
        **({"served_name": str(names[0]) if names else model_of(serving["words"])} if asks_for_key else {"open": True}),
        **_model(serving, others, own, hosts, notes),
        **({"image": image} if image else {}),
        **({"workload": workload} if workload else {}),
        **differs,
    }
    notes += _of_start(serving, [str(more) for more in names[1:]])
    stops = dict.fromkeys(hosts, "end its member of the head's cluster")
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
    speculation = recipe["flags"].get("speculative-config") if recipe else None
    # a drafter in a folder that its container is given stays where it is
    is_here = isinstance(speculation, Mapping) and speculation.get("model") in serving["paths"]
    silent = (*_SILENT, "import-drafter") if is_here else _SILENT
    sentences = [finding.sentence() for finding in findings if finding.rule not in silent]
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
        if serving["by"] not in ("", "docker"):
            notes.append(_WORDS["store"].format(by=serving["by"], image=serving["image"]))
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
    options = _options(serving)
    inside = str(_inside(serving, options))
    keys = [name for name in serving["withheld"] if re.search(r"api[-_]?k", name, re.IGNORECASE)]
    others = [name for name in serving["withheld"] if name not in keys]
    rows = (
        ("names", names),
        ("https", {"ssl-certfile", "ssl-keyfile"} & {*options}),
        ("options", "config" in options),
        ("unpublished", serving["closed"] and inside not in serving["published"]),
        ("changed", serving["changed"]),
        ("over", serving["over"]),
        ("key", keys),
        ("no-key", not keys and serving["engine"] != "trtllm"),
        ("secrets", others),
        ("returns", not serving["returns"]),
    )
    words = {
        "names": ", ".join(names),
        "config": _first(options, "config"),
        "port": inside,
        "others": ", ".join(others),
    }
    words |= {"number": str(len(serving["changed"])), "changed": ", ".join(serving["changed"][:3])}
    words["over"] = ", ".join(f"{source} over {target}" for target, source in [*serving["over"].items()][:3])
    yield from (_WORDS[name].format(**words) for name, holds in rows if holds)


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
