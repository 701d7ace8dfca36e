# SPDX-License-Identifier: GPL-3.0-or-later
"""What a recipe may do only where the service's owner declares that he wants it: ``trust`` of a service."""

import posixpath
import re
from collections.abc import Iterator, Mapping

from .._base import layout, worded
from .._base.findings import Finding, error
from .._base.gb10 import data_table
from .._base.place import Place
from .._base.received import ANYTHING, matching, parsed
from .._engines.declaration import DraftData, ModelData
from .._engines.placed import Placed
from .._engines.recipes.derive import DERIVED
from .._engines.recipes.spec import MOUNTED
from .._stores.lock.lock import Lock, locked

TRUST: Mapping[str, str] = data_table("trust")
_JSON = re.compile(r"\s*(\{\s*[\"}]|\[\s*[\[{\"])")
_MOST_JSON = 1 << 20
_EXPECTED = f"a folder below {', '.join(layout.DATA[:4])}"

# Variables that make a loader, Python, a shell or the engine run other code, or trust another hub or network.
_LOADERS = re.compile(
    r"LD_(?!BIND_NOW$).+|PATH|HOME|BASH_ENV|GCONV_PATH|CUDA_INJECTION\d+_PATH|CC|CXX|CUDACXX|GLIBC_TUNABLES|ENV"
    r"|.+_(PLUGINS?|EXTERNAL_\w+|SO_PATH|LOGGING_CONFIG_PATH|REDIRECT_PATH|INDEX_URL|COMMAND|ENDPOINT)|.+_proxy"
    r"|RAY_(ADDRESS|(JOB_CONFIG|RUNTIME_ENV).*)|.+_(USE_MODELSCOPE|TRUST_REMOTE_CODE)"
    r"|PYTHON(?!(UNBUFFERED|HASHSEED|DONTWRITEBYTECODE|FAULTHANDLER|UTF8|IOENCODING|NOUSERSITE|MALLOC|OPTIMIZE)$).+",
    re.IGNORECASE,
)
_ASKS_HUB = re.compile(r"\w+_OFFLINE=(?!(1|true|yes|on)$).*", re.IGNORECASE)
# A place that a part of a text names: a path or an address. What lies there may be code, unless its name or reader
# excludes it.
_PLACE = re.compile(r"[\"'(\[{@|+]*(~|\.{0,2}/)|@")
_PARTS = re.compile(r"[^\s,;:=]+")
# A part of a variable that names nothing else: a number, a switch, a word, a device, JSON of these.
_WORD = re.compile(r"-?\d[\w.]*|(?!-)([\w+^%{}\[\]\"-]|\.(?=\d))*")
# Keys whose value is code by its name, in what an engine hands on to others.
_BY_NAME = re.compile(r".*(^|[.-])(module|class|cls|plugin|hook)(-(path|name))?")
_WRITTEN_TO = re.compile(
    r"(?!.*cache).*-(save-path|dir)|log-file|(allowed-local-)?media-path|.*_(DEBUG_FILE|PROFILER_DIR)"
)
# Files of a model that no engine runs; as the target of a mount, where no loader looks for them either.
_PLAIN = (".jinja", ".json", ".gguf", ".safetensors", ".model", ".tiktoken")
_NO_CODE = (*_PLAIN, ".txt", ".png", ".jpg")
# Options whose value is a model's folder, or a folder in it that is a model.
_MODELS = ("model", "model-path", "tokenizer", "tokenizer-path", "hf-config-path", "generation-config", "lora-modules",
           "lora-paths", "speculative-draft-model-path", "draft-model")  # fmt: skip
# Options by which a model's code is read from elsewhere than the folder that its commit fixes, and of what commit.
_DRAFTS = ("speculative-draft-model", "speculative-draft-model-path", "speculative-model", "speculative-model-dir")
_READ_BESIDE = ("tokenizer", "tokenizer-path", "hf-config-path", "processor", *_DRAFTS)
_REVISIONS = ("revision", "code-revision", "tokenizer-revision", "speculative-draft-model-revision")
# In the container: what is ours, and what no file of a recipe replaces.
_OURS = (layout.IN_LIBRARY, "/run", "/var/run", layout.IN_MODELS, layout.IN_MODEL_CODE, "/proc", "/sys", "/dev")
# In the container: where programs, libraries, what they have compiled, and their settings are looked for.
_LOADED_FROM = re.compile(
    r"/(etc|usr|lib\w*|s?bin|opt|app|code|nix|snap|\w*conda\d?|([\w-]+-)?workspace)(/.*)?"
    r"|/(vllm|sglang|sgl|tensorrt|llama)[\w.-]*(/.*)?"
    r"|.*/((site|dist)-packages|python3[.\d]*|venv|\.(?!cache/huggingface(/hub(/.*)?)?$)[^/]*)(/.*)?"
    r"|.*\.(py[cdz]?|pth|so[.\d]*\w?|sh|egg|whl|jar|node|cubin|ptx)|.*/__pycache__(/.*)?",
    re.IGNORECASE,
)
_WHOLE = ("/bin", "/etc", "/home", "/lib", "/lib64", "/root", "/sbin", "/usr", "/usr/bin", "/usr/lib", "/var")


def trust_problems(placed: Placed, lock: Lock, relock: str) -> Iterator[Finding]:
    """Why a service as placed, its flags and variables decided, does more than its owner has declared.

    lock, relock: as of `_plan.fleet.plan_fleet`; what is locked is the same in every run, as if it were pinned.
    """
    recipe, trusted = Place(recipe=placed.recipe["name"]), placed.settings.get("trust", ())
    yield from _targets(placed, recipe)
    if "code" not in trusted:
        yield from _unpinned_code(placed, lock, relock)
        yield from _named_code(placed, recipe)
        yield from _code_beside(placed)
    if "container" not in trusted:
        for key in ("capabilities", "ipc", "seccomp"):
            decided = placed.isolation[key]
            if decided.origin == "recipe" and decided.value not in ([], "private", "default"):
                found = f"{decided.value}: {decided.reason}"
                yield _untrusted("container", recipe.below("container", key), found, "what GB10's default has")
    if "mounts" not in trusted:
        yield from _mounts(placed, recipe)
    if "development" not in trusted:
        yield from _development(placed)
    for folder in placed.adapter_folders:
        if not re.fullmatch(MOUNTED, folder):
            yield worded.error("service-adapter-folder", placed.place, folder=folder)


def _mounts(placed: Placed, recipe: Place) -> Iterator[Finding]:
    """Folders and files of the host that the recipe names, and the service does not."""
    for index, mount in enumerate(placed.recipe["mounts"]):
        if not _is_data(mount["source"]):
            found = f"{mount['source']} of the host"
            yield _untrusted("mounts", recipe.below("mounts", index), found, _EXPECTED)
        elif not mount["read_only"]:
            found = f"{mount['source']}, to be written"
            yield _untrusted("mounts", recipe.below("mounts", index), found, "read_only: true")
    own = placed.engine.adapters(placed.settings["flags"])
    for folder in placed.adapter_folders:
        if folder not in own and not _is_data(folder):
            found = f"{folder} of the host, the folder of an adapter"
            yield _untrusted("mounts", recipe.below("flags"), found, _EXPECTED)
    yield from _foreign_sources(placed, recipe)


def _foreign_sources(placed: Placed, recipe: Place) -> Iterator[Finding]:
    """Files of the host that the recipe, and not the service, names as the model or the image."""
    for part, key, source, own in (
        ("model", "path", placed.recipe["model"]["source"], placed.settings["model"]),
        ("image", "archive", placed.recipe["image"]["source"], placed.settings["image"]),
    ):
        named = source.get(key) if isinstance(source, Mapping) else None
        if named and "source" not in own and not _is_data(named):
            at = recipe.below(part, "source", key)
            yield worded.error("service-trust-mounts", at, expected=_EXPECTED, named=named, part=part, key=key)


def _is_data(path: str) -> bool:
    """Below a folder of data, and not the whole of it, however that is written."""
    return posixpath.normpath(path).startswith(layout.DATA)


def _unpinned_code(placed: Placed, lock: Lock, relock: str) -> Iterator[Finding]:
    switches = [*dict.fromkeys(_code_of_the_model(placed))]
    for where, model in (((), placed.model), (("draft",), placed.model.get("draft"))):
        is_fixed = model is not None and _is_fixed(model, lock, relock)
        # nobody chose the commit of a derived recipe for its code
        chosen = placed.recipe["status"]["state"] != DERIVED or "revision" in placed.settings["model"]
        if switches and model is not None and not (is_fixed and (chosen or where)):
            # one of a draft model of a service's own has no place to be pinned but the service
            pin = "draft: {repository: NAME, revision: COMMIT}" if where else "revision: COMMIT"
            yield error(
                "service-trust-code",
                placed.place.below("model", *where, "revision"),
                found=f"{model['revision'] if is_fixed else 'null'}, and {' and '.join(switches)} runs the code of "
                + (
                    f"{model['repository']}, which nobody has read for you"
                    if is_fixed
                    else f"whatever {model['repository']} is on the day of the staging"
                ),
                expected="a commit, here or in the lock",
                remedy=f"write trust: [code] in the service if you trust its publisher; or model: {{{pin}}}, a commit "
                f"whose code you have read (the hub shows it below Files)"
                + (
                    f"; or {switches[0]}: null among the flags if the engine knows the model by itself"
                    if switches[0] in placed.engine.spec.code_flags
                    else ""
                ),
            )


def _code_of_the_model(placed: Placed) -> Iterator[str]:
    """By what code of the checkpoint runs. Whatever leads into the model's folder is code, unless it can be none."""
    for name, decided in placed.flags.items():
        if name in placed.engine.spec.code_flags:
            if decided.value not in (None, False):
                yield name
        elif any(_runs(keys, text, placed) for keys, text in _texts(decided.value, name)):
            yield name
    for environment in placed.environments.values():
        for name, decided in environment.items():
            text = str(decided.value)
            may_be_code = _LOADERS.fullmatch(name) or not _names_data(text)
            if may_be_code and _leads_into_models(text) and (name, text) != ("HF_HOME", layout.IN_MODELS):
                yield name
    if _leads_into_models(placed.image["entrypoint"] or ""):
        yield "image.entrypoint"
    for overlay in placed.recipe["overlays"]:
        places = overlay.get("model_file", ""), overlay["target"]
        if places[0] and not all(place.endswith(_PLAIN) for place in places):
            yield f"the overlay {overlay['target']}"
    for mount in placed.recipe["mounts"]:
        if posixpath.normpath(mount["source"]).startswith(f"{layout.MODELS}/"):
            yield f"the mount {mount['target']}"


def _runs(keys: tuple[str, ...], text: str, placed: Placed) -> bool:
    """Whether a text at a key of an option names a file of the model's that may be code."""
    if not _leads_into_models(text):
        return False
    names_code = not placed.engine.spec.code_names.keys().isdisjoint(keys)
    return names_code or not (keys[-1] in _MODELS or _names_data(text))


def _names_data(text: str) -> bool:
    """Whether each part of a text that leads into the model's folder ends as no code does."""
    return all(part.endswith(_NO_CODE) for part in _PARTS.findall(text) if _leads_into_models(part))


def _code_beside(placed: Placed) -> Iterator[Finding]:
    """Where the model's code may run: whose code runs beside it, which neither its commit nor the lock fixes."""
    flags = {name: decided.value for name, decided in placed.flags.items()}
    if all(flags.get(name) in (None, False) for name in placed.engine.spec.code_flags):
        return
    for name, value in flags.items():
        for keys, text in _texts(value, name):
            is_other = keys[-1] in _READ_BESIDE and text != "auto" and not text.startswith("{model_path}")
            if is_other or (keys[-1] in _REVISIONS and not re.fullmatch("[0-9a-f]{40}", text)):
                found = f"{keys[-1]}: {text[:80]}, whose code runs and which nothing fixes"
                yield _untrusted(
                    "code", placed.place.below("flags", name), found, "the model's own folder, or a commit"
                )
    merged = [overlay.get("json_merge") for overlay in placed.recipe["overlays"]]
    for keys, text in [text for value in (placed.config, flags, *merged) for text in _texts(value, "config")]:
        if "auto-map" in keys and "--" in text:
            found = f"its code is {text[:120]}, of another repository, which nothing fixes"
            yield _untrusted("code", placed.place.below("model"), found, "code in the model's own folder")
    for index, overlay in enumerate(placed.recipe["overlays"]):
        if "file" in overlay and overlay["target"].endswith(".json") and not overlay["target"].startswith("/"):
            at = Place(recipe=placed.recipe["name"]).below("overlays", index)
            yield _untrusted("code", at, f"{overlay['target']}, which may name code", "json_merge")


def _leads_into_models(text: str) -> bool:
    return "{model_path}" in text or re.search(rf"(^|[^\w.-])/*{layout.IN_MODELS}(/|$)", text) is not None


def _texts(value: object, *keys: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """Each text in an option's value, however deep, with the keys that lead to it as options are written."""
    match value:
        case Mapping():
            for name, item in value.items():
                yield from _texts(name, *keys)
                yield from _texts(item, *keys, name)
        case list():
            for item in value:
                yield from _texts(item, *keys)
        case _ if (text := matching(ANYTHING, value)) is not None:
            yield tuple(key.replace("_", "-") for key in keys), text
            if _JSON.match(text):
                try:
                    yield from _texts(parsed(text, _MOST_JSON, ""), *keys)
                except ValueError:
                    yield (*keys, "module"), text  # what is not read here may name anything


def _named_code(placed: Placed, recipe: Place) -> Iterator[Finding]:
    """Options and variables of a recipe that name code to be run, or may, wherever it lies."""
    for name, decided in placed.flags.items():
        texts = [*_texts(decided.value, name)] if decided.origin == "recipe" else []
        named = [one for one in texts if not _leads_into_models(one[1]) and _may_be_code(*one, placed)]
        if named:
            found = f"{named[0][0][-1]}: {named[0][1][:80]}, code to be run"
            yield _untrusted("code", recipe.below("flags", name), found, "none")
    for kind, index, target in _code_targets(placed):
        found = f"{target}, which is code, or where the container looks for code"
        yield _untrusted("code", _at(recipe, kind, index), found, "data: .jinja, .json, outside of /etc")
    written = {name for environment in placed.environments.values() for name in environment}
    for name in sorted(written & placed.recipe["env"].keys() - placed.settings["env"].keys()):
        text = str(placed.recipe["env"][name])
        runs = _LOADERS.fullmatch(name) or _ASKS_HUB.fullmatch(f"{name}={text}")
        if runs or (_is_place(name, text, _WORD) and not _leads_into_models(text)):
            found = f"{text[:80]}, which may run other code than the image's"
            yield _untrusted("code", recipe.below("env", name), found, "no such variable in a recipe")


def _may_be_code(keys: tuple[str, ...], text: str, placed: Placed) -> bool:
    names = placed.engine.spec.code_names
    for key in reversed(keys):
        if key in names or _BY_NAME.fullmatch(key):
            return not re.fullmatch(names.get(key, r"auto|none|vllm\.[\w.]+|"), text, re.IGNORECASE)
    return keys[-1] not in _MODELS and _is_place(keys[-1], text)


def _is_place(name: str, text: str, word: re.Pattern[str] | None = None) -> bool:
    """Whether a part of a text leads to where code may lie, or is none of these words."""
    parts = [part for part in _PARTS.findall(text) if not part.endswith(_NO_CODE)]
    named = (_PLACE.match(part) if word is None else not word.fullmatch(part) for part in parts)
    return any(named) and not _WRITTEN_TO.fullmatch(name)


def _code_targets(placed: Placed) -> Iterator[tuple[str, int, str]]:
    """Where a recipe's own files are code, or lie where the image loads code, and so do its mounts."""
    for kind, index, target in _named_targets(placed):
        if kind == "overlays":
            is_code = "file" in placed.recipe["overlays"][index] and target not in placed.overlays.shipped
        else:
            is_code = _LOADED_FROM.fullmatch(target) is not None
        if is_code and not (target.endswith(_PLAIN) and not target.startswith("/etc/")):
            yield kind, index, target


def _named_targets(placed: Placed) -> Iterator[tuple[str, int, str]]:
    """The targets of a recipe's mounts, files and temporary folders, without detours."""
    tmpfs = placed.recipe["container"].get("tmpfs", {}).get("value", ())
    for kind, written in (
        ("mounts", [mount["target"] for mount in placed.recipe["mounts"]]),
        ("overlays", [overlay["target"] for overlay in placed.recipe["overlays"]]),
        ("tmpfs", tmpfs),
    ):
        for index, target in enumerate(written):
            # two slashes at the beginning stay two
            yield kind, index, posixpath.normpath(f"/{target.lstrip('/')}" if target.startswith("/") else target)


def _targets(placed: Placed, recipe: Place) -> Iterator[Finding]:
    """Where a recipe's mounts, files and temporary folders lie over what is ours in the container, or each other."""
    seen: set[str] = set()
    for kind, index, target in _named_targets(placed):
        twice = target in seen
        seen.add(target)
        if twice or _is_ours(target, *placed.engine.spec.caches.values()):
            why = "which the recipe names twice" if twice else "where no recipe puts anything"
            yield worded.error("service-target", _at(recipe, kind, index), target=target, why=why)


def _at(recipe: Place, kind: str, index: int) -> Place:
    return recipe.below(*(["container"] if kind == "tmpfs" else []), kind, index)


def _is_ours(target: str, *caches: str) -> bool:
    if not target.startswith("/"):
        return False
    is_above = any(ours.startswith(f"{target.rstrip('/')}/") for ours in (*_OURS, *caches))
    is_below = any(f"{target}/".startswith(f"{ours}/") for ours in (*_OURS, *caches))
    # Python takes a module of that name from the first folder that has it
    has_our_name = any(part.startswith("gb10_") for part in target.split("/"))
    return is_above or is_below or has_our_name or target in _WHOLE


def _is_fixed(model: ModelData | DraftData, lock: Lock, relock: str) -> bool:
    """Whether every run serves the same files of it, or those of a folder of the owner's."""
    source = model.get("source")
    is_own = isinstance(source, Mapping) and "path" in source
    return model["revision"] is not None or is_own or locked("models", model, lock, relock) is not None


def _development(placed: Placed) -> Iterator[Finding]:
    """By variables, in capitals, and by options; and files of ours that clients may name."""
    for name, decided in placed.flags.items():
        folder = posixpath.normpath(str(decided.value))
        if decided.origin == "recipe" and name.endswith("media-path") and _is_ours(f"/{folder.lstrip('/')}"):
            yield _untrusted("development", placed.place.below("flags", name), f"{folder}, open to clients", "a folder")
    for name, what in placed.engine.spec.development.items():
        given = placed.environments.values() if name.isupper() else [placed.flags]
        values = [decided[name].value for decided in given if name in decided]
        if any(str(value).lower() not in ("", "0", "false", "none") for value in values):
            at = placed.place.below("env" if name.isupper() else "flags", name)
            yield _untrusted("development", at, f"on: {what}", "off")


def _untrusted(what: str, place: Place, found: str, expected: str) -> Finding:
    remedy = f"take it out, or write trust: [{what}] in the service if you want it"
    return error(f"service-trust-{what}", place, found=found, expected=expected, remedy=remedy)
