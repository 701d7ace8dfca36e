# SPDX-License-Identifier: GPL-3.0-or-later
"""What serves on a machine that nobody has declared: its processes, their containers, and what starts them.

Only this leaves the host: no value that may be a secret, whatever it is called.
"""

import contextlib
import http.client
import itertools
import json
import os
import pwd
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ..._base import layout
from ..._base.own_files import look
from ..._base.received import LINE
from ..._host.probe.parts import Run, UnreadableError, output
from ..._subjects.services.reading import read_units

# How each engine's server is started: the words at the beginning of its command, after an interpreter.
_PROGRAMS = (
    ("vllm", ("vllm", "serve")),
    ("vllm", ("-m", "vllm.entrypoints.openai.api_server")),
    ("vllm", ("-m", "vllm.entrypoints.cli.main", "serve")),
    ("sglang", ("-m", "sglang.launch_server")),
    ("sglang", ("sglang", "serve")),
    ("llama-cpp", ("llama-server",)),
    ("trtllm", ("trtllm-serve", "serve")),
    ("trtllm", ("trtllm-serve",)),
)
_STARTS = re.compile(r"python[\d.]*|vllm|sglang|llama-server|trtllm-serve")
# Whose memory counts and which stay as they are.
_BESIDE = re.compile(r"(?P<name>ollama|gpustack|lm-?studio|llmster|lms|k3s|llama-swap)(-server)?")
# What starts other programs: its unit is not theirs, and what it starts is not ended by it.
_HOLDERS = re.compile(r"(cron|crond|anacron|atd|sshd|tmux.*|screen|supervisord|jupyter.*|code-server|pm2.*)")
_INTERPRETERS = re.compile(r"python[\d.]*|node|bash|sh")
_GPU = ["nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"]
_LARGE_KIB = 1 << 20
_SECRET = re.compile(
    r"(api|access|secret|private)?-?keys?|api-k.*|hf-tok.*|tokens?|passw.*|passphrase|pwd|secrets?|auth(orization)?|"
    r"credentials?|headers?|cookies?|bearer",
    re.IGNORECASE,
)
_ALWAYS = re.compile(r"api[-_]?k|hf[-_]tok|hugging|passw|passphrase|secret|credential|authorization|headers?$", re.I)
_HARMLESS = re.compile(r"/.*|-?\d{0,6}[kmg]?|true|false", re.IGNORECASE)
# What tokens of known makers look like, an address with a password, and JSON that names a secret.
_SHAPES = re.compile(
    r"\b(sk|hf|ghp|gho|glpat|nvapi|xox[a-z]|github_pat)[-_][\w-]{4,}|\bAKIA\w{12,}|\beyJ[\w-]{16,}\.|://[^/\s:@]*:[^/\s@]+@"
    r"|bearer\s+\S|[\"'][\w-]*(key|token|secret|passw|auth|header|credential)[\w-]*[\"']\s*:\s*[\"'{\[]",
    re.IGNORECASE,
)
# Variables of the engines; any other one is the image's, the network's or nobody's business.
_VARIABLES = re.compile(r"(VLLM|SGLANG|SGL|LLAMA_ARG|FLASHINFER|TORCH|PYTORCH|TRITON|NCCL|CUDA|HF|TRANSFORMERS)_\w+")
_CONTAINER = re.compile(r"(docker-|/docker/|libpod-(?:payload-)?|cri-containerd-)([0-9a-f]{64})")
# A path in a word: alone, or as a value in NAME=PATH or JSON.
_PATH = re.compile(r"(?:^|(?<=[=\":,\[ ]))/(?!/)[\w./@+-]+")
_PLAIN_PATH = r"/[\w./@+-]{1,199}"
# Where an image has its programs; a mount over it is a patch.
_CODE = re.compile(
    r"(?=/[\w./@+-]{1,199}$)(.*-packages/.*|/usr/(local/)?lib/.*|.*\.(py|pth|so[.\d]*|cuh?)|/opt/nvidia/entrypoint\.d/.*)"
)
# An option that takes no value, or has it in the same word: a model may follow.
_NO_VALUE = re.compile(r"--\S+=.*|--(no|enable|disable|enforce|trust|async|headless)\b[\w-]*")
_RELEASE = re.compile(r'"version":\s*"(\d+\.\d+\.\d+)(?:\+[\w.]+)?"')
_ANSWER_S = 2
_UNIT = re.compile(r"/([\w@.:\\-]+\.service)(?=/|$)")
# A session, or the manager of a person's own units.
_NOT_ITS_OWN = re.compile(r"user@|session-|ssh\.|sshd\.|docker\.|containerd\.|cron|atd\.|supervisor")
_BY = {"libpod": "podman", "cri": ""}
_COMPOSE = "com.docker.compose."
# How Podman, and people, write what Docker names without it.
_HUB = re.compile(r"^(index\.)?docker\.io/(library/)?")
_COMMIT = re.compile(r"[0-9a-f]{40}")
# How a member of Ray, and one of Open MPI (orted, prted), names the machine that began it.
_HEAD = re.compile(r"(?:^--gcs-address=|^[\w.@-]+;tcp4?://)([\d.,]{7,200}):\d+")
Ask = Callable[[str], str]
_MOST_FILES, _MOST_CHANGED, _MOST_FILE = 300, 20, 1 << 16


@dataclass(frozen=True)
class Process:
    """words: its command line. container: the id of its container, by: the program that has it; unit: of systemd's, and
    manager: whose, where it is a person's own. Empty without. home: of its account. folder: where it was started, as it
    sees it. env: a server's variables. parents: from its own to the first."""

    words: Sequence[str]
    container: str = ""
    unit: str = ""
    home: str = ""
    resident_kib: int = 0
    by: str = "docker"
    manager: str = ""
    pid: int = 0
    folder: str = ""
    env: Sequence[str] = ()
    parents: Sequence["Process"] = ()

    @property
    def names(self) -> set[str]:
        """What its program may be called, an interpreter's script with it."""
        return {word.rpartition("/")[2].lower() for word in self.words[:2]}

    def is_below(self, names: re.Pattern[str]) -> bool:
        """Whether a program of such a name started it."""
        return any(names.fullmatch(word) for parent in self.parents for word in parent.names)


def program(words: Sequence[str]) -> tuple[str, list[str]] | None:
    """The engine that a command line starts, and the words behind its program; None of any other program."""
    bare = [word.rpartition("/")[2] for word in words[:6]]
    if not words or not _STARTS.fullmatch(bare[0]):
        return None
    for engine, begins in _PROGRAMS:
        for at in range(min(4, len(bare))):
            if tuple(bare[at : at + len(begins)]) == begins:
                return engine, [word for word in words[at + len(begins) :] if word]
    return None


def without_secrets(words: Sequence[str], known: Iterable[str] = ()) -> tuple[list[str], list[str]]:
    """The words without each option whose value may be a secret, and the names of these. known: secrets as such."""
    kept: list[str] = []
    withheld: list[str] = []
    for name, group in _grouped(words):
        shown = name.lstrip("-").replace("_", "-").lower()
        values = [word.partition("=")[2] for word in group[:1] if name and "=" in word] + [*group[1 if name else 0 :]]
        if any(_may_be_secret(shown, value, known) for value in values) or not all(map(_plain, group)):
            withheld.append(re.sub(r"[^\w.-]", "", shown)[:60] or "argument")
        else:
            kept += group
    return kept, list(dict.fromkeys(withheld))


def _grouped(words: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Each option with its values; a word that belongs to none alone, under an empty name."""
    name, group = "", list[str]()
    for word in words:
        if re.match(r"--?[A-Za-z]", word):
            if group:
                yield name, group
            name, group = word.partition("=")[0], [word]
        elif name:
            group.append(word)
        else:
            yield "", [word]
    if group:
        yield name, group


def _plain(word: str) -> bool:
    return len(word) <= 4000 and re.fullmatch(LINE, word) is not None


def _may_be_secret(name: str, value: str, known: Iterable[str] = ()) -> bool:
    if _SHAPES.search(value) or any(len(item) > 3 and item in value for item in known):
        return True
    if _ALWAYS.search(name):
        return bool(value)
    return any(map(_SECRET.fullmatch, re.split(r"[-_.]", name))) and not _HARMLESS.fullmatch(value)


def environment(given: Iterable[str], brought: Iterable[str]) -> tuple[dict[str, str], list[str], list[str]]:
    """Variables of the engine that are no secrets, the names of those that may be, and these values, which stay here.

    brought: by the image, which brings them again.
    """
    pairs = [word.partition("=")[::2] for word in given if word not in {*brought}]
    secret = {name: value for name, value in pairs if value and _may_be_secret(name.lower(), value)}
    kept = {
        name: value
        for name, value in pairs
        if _VARIABLES.fullmatch(name) and name not in secret and _plain(value) and len(value) <= 200
    }
    return kept, sorted(name for name in secret if re.fullmatch(r"\w{1,64}", name)), [*secret.values()]


# Reading ----------------------------------------------------------------------------------------------------------


def processes(proc: Path = Path("/proc")) -> list[Process]:
    found: dict[int, tuple[int, Process]] = {}
    for folder in proc.glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError, KeyError):
            words = (folder / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
            if not words[0]:
                continue
            group = (folder / "cgroup").read_text(encoding="utf-8", errors="replace")
            kind, key = found_in.groups() if (found_in := _CONTAINER.search(group)) else ("docker-", "")
            by = _BY.get(kind.partition("-")[0], "docker")
            unit = [name for name in _UNIT.findall(group) if by and not _NOT_ITS_OWN.match(name)]
            account, home = _account(folder.stat().st_uid)
            session = re.search(r"/user-(\d+)\.slice/", group) if key else None
            pages = int((folder / "statm").read_text(encoding="ascii").split()[1])
            at = folder / "cwd"
            parent = re.search(r"\) \w (\d+)", _text(folder / "stat"))
            found[int(folder.name)] = (
                int(parent[1]) if parent else 0,
                Process(
                    words[: words.index("")] if "" in words else words,
                    container=key,
                    by=_daemon(by, int(session[1])) if session else by,
                    unit=unit[-1] if unit else "",
                    # user@1000.service/app.slice/NAME.service
                    manager=account if unit and "/user@" in group else "",
                    home=home,
                    resident_kib=pages * os.sysconf("SC_PAGE_SIZE") // 1024,
                    pid=int(folder.name),
                    folder=str(at.readlink()) if at.is_symlink() else "",
                ),
            )
    return [_whole(number, found, proc) for number in found]


def _account(number: int) -> tuple[str, str]:
    """Name and home; neither of a number that a container alone knows."""
    try:
        return pwd.getpwuid(number)[0], pwd.getpwuid(number)[5]
    except KeyError:
        return "", ""


def _daemon(by: str, account: int) -> str:
    """The command by which root sees a container of an account's own Docker or Podman."""
    if not (name := _account(account)[0]):
        return by
    if by == "docker":
        return f"docker -H unix:///run/user/{account}/docker.sock"
    return f"runuser -u {name} -- env XDG_RUNTIME_DIR=/run/user/{account} podman"


def _parents(number: int, found: Mapping[int, tuple[int, Process]]) -> list[Process]:
    parents: list[Process] = []
    while len(parents) < len(found) and (number := found.get(number, (0,))[0]) in found:
        parents.append(found[number][1])
    return parents


def _whole(number: int, found: Mapping[int, tuple[int, Process]], proc: Path) -> Process:
    """A process with its parents; a server with its variables and with its model's path as a whole, where a folder or
    file of that name is below where it was started, which engines prefer to the hub."""
    process = replace(found[number][1], parents=_parents(number, found))
    if not (started := program(process.words)):
        return process
    folder, model = proc / str(number), model_of(started[1])
    env = [word for word in _text(folder / "environ").split("\0") if "=" in word]
    words = process.words
    if model and not model.startswith("/") and (folder / "cwd" / model).exists():
        path = os.path.normpath(f"{process.folder}/{model}")
        named = re.compile(rf"(--[\w-]+=)?{re.escape(model)}")
        words = [(same[1] or "") + path if (same := named.fullmatch(word)) else word for word in words]
    return replace(process, words=words, env=env)


def _asked(at: str) -> str:
    """What a server says of its release: it asks for no key there. at: ADDRESS:PORT."""
    try:
        line = http.client.HTTPConnection(at, timeout=_ANSWER_S)
        line.request("GET", "/version")
        return line.getresponse().read(_MOST_FILE).decode("utf-8", "replace")
    except (OSError, http.client.HTTPException, ValueError):
        return ""


def read_serving(
    run: Run, running: Sequence[Process], units: Path = Path(layout.UNITS), ask: Ask = _asked
) -> list[dict[str, Any]]:
    """A `Serving` of each server among the processes. What Docker does not answer within its time is left out."""
    servers = [(one, found) for one in running if (found := program(one.words)) and not _is_part(one, found[0])]
    containers: dict[str, Any] = {}
    images: dict[str, Any] = {}
    for by in sorted({one.by for one, _found in servers if one.by}):
        for kept, new in zip((containers, images), _inspected(run, by, [one for one, _found in servers]), strict=True):
            kept.update(new)
    texts = {path.name: _text(path) for path in [*units.glob("*.service")][:_MOST_FILES]} if servers else {}
    result: list[dict[str, Any]] = []
    for one, started in servers:
        shown = containers.get(one.container, {})
        name = str(shown.get("Name", "")).lstrip("/")
        if layout.service_of(name) or layout.service_of(one.unit):
            continue  # it is ours already: `read_ours`
        waits = [process for process in running if name and {name, f"--name={name}"} & {*process.words}]
        if any(process.is_below(_BESIDE) for process in waits):
            continue  # a router's, which starts it again
        own = images.get(str(shown.get("Image", "")), {})
        server = _serving(one, started, shown, own, ask)
        changed = _changed(run, one.by, name) if name else []
        server["changed"] = [path for path in changed if path not in server["over"]]
        holder = one if one.unit else next((process for process in waits if process.unit), one)
        unit = "" if one.is_below(_HOLDERS) else holder.unit or _starting(texts, name, shown)
        server["ends"] = (
            _unit_end(unit, holder.manager) if unit else _container_end(one, name, shown, server["returns"])
        )
        server["returns"] |= bool(unit)
        if server not in result:
            result.append(server)
    return result


def _is_part(process: Process, engine: str) -> bool:
    """Whether another server started it: of its own kind, as a router does, or one that stays as it is."""
    started = [found[0] for parent in process.parents if (found := program(parent.words))]
    return engine in started or process.is_below(_BESIDE)


def _unit_end(unit: str, manager: str, run: Path = Path("/run")) -> str:
    """How a unit is ended for good. What a generator made, as of Podman's files, has no file that can be disabled."""
    folder = "user/*/systemd" if manager else "systemd"
    made = next((kind for kind in ("generator", "transient") if [*run.glob(f"{folder}/{kind}/{unit}")]), "")
    verb = {"generator": "mask --now", "transient": "stop"}.get(made, "disable --now")
    return f"sudo systemctl {f'--user -M {manager}@ ' if manager else ''}{verb} {unit}"


def _container_end(process: Process, name: str, shown: Mapping[str, Any], returns: bool) -> str:
    """How a container is ended for good; empty without one that Docker or Podman has."""
    swarm = str(((shown.get("Config") or {}).get("Labels") or {}).get("com.docker.swarm.service.name", ""))
    if re.fullmatch(r"[\w.-]+", swarm):
        return f"sudo docker service scale {swarm}=0"
    if not (process.container and process.by):
        return ""
    way = f"sudo {process.by}" if name else process.by  # without a name it is an account's own Podman
    again = f"{way} update --restart=no {name} && " if returns else ""
    return f"{again}{way} stop {name or process.container[:12]}"


def read_ours(units: Path = Path(layout.UNITS), services: Path = Path(layout.SERVICES)) -> list[dict[str, Any]]:
    """An `Ours` of each service of this collection's, whether it runs or not."""
    names = ((str(layout.service_of(unit["unit"]) or ""), unit["inventory"]) for unit in read_units(units, services))
    found = {
        name: {"service": name, "inventory": inventory, "model": "", "port": 0} for name, inventory in names if name
    }
    for name in found:
        found[name] |= look(services / f"{name}.json", _endpoint)[0] or {}
    return [*found.values()]


def _endpoint(content: bytes) -> dict[str, Any]:
    endpoint = json.loads(content)["endpoint"] or {}
    return {"model": endpoint["model"], "port": urlsplit(endpoint["url"]).port or 0} if endpoint else {}


def _inspected(run: Run, by: str, servers: Iterable[Process]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Containers and their images by their ids; neither where Docker, or Podman, does not answer."""
    try:
        wanted = sorted({server.container for server in servers if server.container and server.by == by})
        found = json.loads(output(run, [*by.split(), "inspect", "--type", "container", *wanted])) if wanted else []
        images = sorted({item["Image"] for item in found})
        shown = json.loads(output(run, [*by.split(), "image", "inspect", *images])) if images else []
    except (UnreadableError, ValueError):
        return {}, {}
    return {item["Id"]: item for item in found}, {container["Id"]: container for container in shown}


def _serving(
    process: Process, started: tuple[str, Sequence[str]], shown: Mapping[str, Any], own: Mapping[str, Any], ask: Ask
) -> dict[str, Any]:
    engine, words = started[0], _with_file(started[1], process.folder, _mounts(shown))
    config, host = shown.get("Config") or {}, shown.get("HostConfig") or {}
    given = process.env or config.get("Env") or ()
    env, hidden, secrets = environment(given, (own.get("Config") or {}).get("Env") or ())
    if not process.container:  # folders of the host, which ours does not see
        env = {name: value for name, value in env.items() if not value.startswith("/")}
    kept, withheld = without_secrets(words, secrets)
    reference = str(config.get("Image", ""))
    own_id = str(own.get("Id", "")).removeprefix("sha256:")
    by_id = re.fullmatch(r"(?:sha256:)?([0-9a-f]{6,64})", reference)
    if by_id and (":" in reference or own_id.startswith(by_id[1])):
        reference = next(iter(own.get("RepoTags") or own.get("RepoDigests") or ()), f"sha256:{own_id or by_id[1]}")
    reference = _HUB.sub("", reference)
    if reference and ":" not in reference.rpartition("/")[2]:
        reference += ":latest"
    bare = reference.partition("@")[0]
    repository = bare.rpartition(":")[0] if ":" in bare.rpartition("/")[2] else bare
    named = [text.partition("@") for text in own.get("RepoDigests") or ()]
    # Podman names what was built here, too
    digests = [digest for of, _, digest in named if _HUB.sub("", of) == repository and not of.startswith("localhost/")]
    digests.sort(key=lambda digest: digest != reference.partition("@")[2])
    closed = bool(shown) and host.get("NetworkMode", "") != "host"
    ports = ((shown.get("NetworkSettings") or {}).get("Ports") or {}) if closed else {}
    folder, commit = _weights(kept, _mounts(shown), dict(word.partition("=")[::2] for word in given),
                              process.home if not shown else "/root")  # fmt: skip
    published = {
        inside.partition("/")[0]: f"{binds[0].get('HostIp') or '0.0.0.0'}:{binds[0]['HostPort']}"
        for inside, binds in sorted(ports.items())
        if binds
    }
    port = value_of(kept, "--port") or "8000"
    at = f"127.0.0.1:{port}" if not closed else published.get(port, "").replace("0.0.0.0", "127.0.0.1")
    release = _RELEASE.search(ask(at)) if engine == "vllm" and at else None
    if engine == "llama-cpp" and commit and value_of(kept, "-hf", "-hfr", "--hf-repo"):
        kept += _file_of(folder, commit, kept)
    kept, paths = _of_host(kept, model_of(kept), _mounts(shown), everywhere=not process.container)
    return {
        "engine": engine,
        "words": kept,
        "withheld": [*withheld, *hidden],
        "env": env,
        "image": reference.partition("@")[0],
        "digest": digests[0] if digests else "",
        "by": process.by if shown else "hidden" if process.container else "",
        "closed": closed,
        "published": published,
        "release": release[1] if release else "",
        "paths": paths,
        "over": _over(_mounts(shown)) if shown else {},
        "returns": ((host.get("RestartPolicy") or {}).get("Name") or "no") != "no",
        "folder": folder,
        "commit": commit,
    }


def _with_file(words: Sequence[str], folder: str, mounts: Sequence[tuple[str, str]]) -> Sequence[str]:
    """The words with the options of the file that --config names in front of them, so that the command's own count.
    As they are where it can't be read, or has more than names with values."""
    path = _on_host(os.path.normpath(Path(folder or "/", value_of(words, "--config"))), mounts)
    found: list[str] = []
    for line in _text(Path(path)).splitlines() if path else ():
        row = re.sub(r"(^|\s)#.*", "", line).rstrip()
        match = re.fullmatch(r"(?:([A-Za-z][\w-]*):|\s*-)(?:\s+(?![&*!|>{\[])(.+))?", row)
        if not match and row not in ("", "---"):
            return words
        name, value = match.groups("") if match else ("", "")
        found += [f"--{name}"] if name and value != "false" else []
        found += [value.strip("'\"")] if value not in ("", "true", "false") else []
    pairs = itertools.pairwise(["", *words])
    rest = [word for before, word in pairs if not found or "--config" not in (before, word.partition("=")[0])]
    first = 0 if rest and rest[0].startswith("-") else 1
    return [*rest[:first], *found, *rest[first:]]


def _mounts(shown: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Folders of the host and where the container sees them, the deepest first; the whole host without a container."""
    mounts = [(str(Mount.get("Source", "")), str(Mount["Destination"])) for Mount in shown.get("Mounts") or ()]
    return sorted(mounts, key=lambda mount: -len(mount[1])) if shown else [("/", "/")]


def _over(mounts: Sequence[tuple[str, str]]) -> dict[str, str]:
    """The files and folders of the host that lie over the image's own code, by where they lie."""
    found = {
        target: source for source, target in mounts if _CODE.fullmatch(target) and re.fullmatch(_PLAIN_PATH, source)
    }
    return dict(sorted(found.items())[:_MOST_CHANGED])


def _on_host(path: str, mounts: Sequence[tuple[str, str]]) -> str:
    """A container's path as the host has it; empty where it is in the container alone."""
    for source, target in mounts:
        if source and (path == target or path.startswith(target.rstrip("/") + "/")):
            return os.path.normpath(os.path.join(source, path[len(target) :].lstrip("/")))  # noqa: PTH118 - "/" with "/" is "//"
    return ""


def _of_host(
    words: Sequence[str], model: str, mounts: Sequence[tuple[str, str]], *, everywhere: bool
) -> tuple[list[str], list[str]]:
    """The words with each path of a folder that a container was given as the host has it, and these paths.

    everywhere: it runs without a container, so that all files of the host may be meant.
    """
    found: list[str] = []

    def own(match: re.Match[str]) -> str:
        path = _on_host(match[0], mounts)
        if not path or (everywhere and not Path(path).exists()):
            return match[0]
        found.append(path)
        return path

    kept = [word if model and word.endswith(model) else _PATH.sub(own, word) for word in words]
    return kept, list(dict.fromkeys(found))


def _weights(
    words: Sequence[str], mounts: Sequence[tuple[str, str]], env: Mapping[str, str], home: str
) -> tuple[str, str]:
    """The folder of a model's weights on the host, and their commit; empty where not known."""
    model = model_of(words)
    if model.startswith("/"):
        folder = _on_host(model, mounts)
        if folder and Path(folder).is_symlink():  # a name of its own for a folder of a cache
            folder = _on_host(os.path.normpath(Path(model).parent / Path(folder).readlink()), mounts)
        kept = re.search(r"^(.*/models--[\w.-]+)/snapshots/([0-9a-f]{40})(?:/.*)?$", folder)
        return (kept[1], kept[2]) if kept else (folder, "")
    model = model.partition(":")[0]  # llama.cpp's ORG/NAME:SIZE
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", model):
        return "", ""
    cache = env.get("XDG_CACHE_HOME") or f"{env.get('HOME') or home}/.cache"
    hub = value_of(words, "--download-dir", "--download_dir") or env.get("HF_HUB_CACHE")
    hub = hub or env.get("HUGGINGFACE_HUB_CACHE") or f"{env.get('HF_HOME') or f'{cache}/huggingface'}/hub"
    folder = _on_host(f"{hub}/models--{model.replace('/', '--')}", mounts)
    asked = next((after for word, after in itertools.pairwise(words) if word == "--revision"), "main")
    commit = asked if _COMMIT.fullmatch(asked) else _text(Path(folder, "refs", Path(asked).name)).strip()
    if not folder or not _COMMIT.fullmatch(commit) or not Path(folder, "snapshots", commit).is_dir():
        return "", ""
    return folder, commit


def _file_of(folder: str, commit: str, words: Sequence[str]) -> list[str]:
    """The option that names the file which llama.cpp took of a repository, where one alone is of the size that it was
    asked for; a split one by its first part."""
    size, root = model_of(words).partition(":")[2].lower(), Path(folder, "snapshots", commit)
    files = [str(path.relative_to(root)) for path in root.rglob("*.gguf")]
    later = re.compile(r"mmproj|-(?!00001)\d{5}-of-\d{5}\.", re.IGNORECASE)
    fit = [file for file in files if size in file.lower() and not later.search(file)]
    is_named = value_of(words, "--hf-file", "-hff")
    return ["--hf-file", fit[0]] if len(fit) == 1 and not is_named else []


def value_of(words: Sequence[str], *options: str) -> str:
    """The value of the first of the options that is there."""
    named = [after for word, after in itertools.pairwise(words) if word in options]
    named += [word.partition("=")[2] for word in words if word.partition("=")[0] in options and "=" in word]
    return named[0] if named else ""


def model_of(words: Sequence[str]) -> str:
    """What a server's words name as its model: the first one, the value of an option, or a word behind an option that
    takes no value."""
    named = value_of(words, "--model", "--model-path", "-m", "-hf", "-hfr", "--hf-repo")
    if named or (words and not words[0].startswith("-")):
        return named or words[0]
    behind = [after for word, after in itertools.pairwise(words) if _NO_VALUE.fullmatch(word)]
    return next((word for word in behind if re.fullmatch(r"/?[\w.-]+/[\w./-]+", word)), "")


def _changed(run: Run, by: str, container: str) -> list[str]:
    """Files of Python packages, and of patches, that a container has otherwise than its image."""
    try:
        rows = output(run, [*by.split(), "diff", container]).splitlines()
    except UnreadableError:
        return []
    found = [row[2:] for row in rows if re.search(r"-packages/.*\.(py|so)$|/mods/[^/]+$|\.cuh?$", row)]
    return [path for path in found if _plain(path) and len(path) <= 200][:_MOST_CHANGED]


def _starting(texts: Mapping[str, str], name: str, shown: Mapping[str, Any]) -> str:
    """The unit whose text names a container, or the project that it is of."""
    labels = (shown.get("Config") or {}).get("Labels") or {}
    words = {name, *(str(labels.get(_COMPOSE + key, "")) for key in ("project.config_files", "project.working_dir"))}
    named = [
        unit
        for unit, text in sorted(texts.items())
        if any(word and re.search(rf"(?<![\w/.-]){re.escape(word)}(?![\w.-])", text) for word in words)
        or ("sparkrun.cluster_id" in labels and re.search(r"^ExecStart=.*\bsparkrun\b.*\brun\b", text, re.MULTILINE))
    ]
    return next((unit for unit in named if re.fullmatch(r"[\w@.:\\-]{1,200}", unit)), "")


def _text(path: Path) -> str:
    try:
        with path.open(encoding="utf-8", errors="replace") as stream:
            return stream.read(_MOST_FILE)
    except OSError:
        return ""


def ray_heads(running: Sequence[Process]) -> list[str]:
    """The addresses of the heads of clusters, of Ray or MPI, that this machine is in."""
    found = (match for process in running for word in process.words for match in _HEAD.findall(word))
    return sorted({address for match in found for address in match.split(",")})


def beside(running: Sequence[Process], run: Run) -> dict[str, int]:
    """Other servers of models, and whatever else holds much of the GPU's memory, with what they hold in KiB."""
    on_gpu: dict[int, int] = {}
    with contextlib.suppress(UnreadableError):
        on_gpu = {int(pid): int(mib) << 10 for pid, mib in re.findall(r"^(\d+), (\d+)$", output(run, _GPU), re.M)}
    with_servers = {one.container for one in running if one.container and program(one.words)}
    held: dict[str, int] = {}
    for process in running:
        chain = (process, *process.parents)
        known = [match["name"] for one in chain for word in one.names if (match := _BESIDE.fullmatch(word))]
        gpu = on_gpu.get(process.pid, 0)
        is_ray = process.words[0].startswith("ray::")  # its head's server is on another host, perhaps
        is_served = process.container in with_servers or is_ray or any(program(one.words) for one in chain)
        if known or (gpu >= _LARGE_KIB and not is_served):
            # an engine's worker has a title of its own, as VLLM::EngineCore
            name = known[0] if known else _called(next((one for one in chain if "::" not in one.words[0]), process))
            held[name] = held.get(name, 0) + process.resident_kib + gpu
    return held


def _called(process: Process) -> str:
    """What a person calls a program: its script or module, or the folder of one that is called as many are."""
    words = [word for word in process.words[1:] if not word.startswith("-")]
    is_script = _INTERPRETERS.fullmatch(Path(process.words[0]).name) is not None and words
    path = Path(process.folder or "/", words[0] if is_script else process.words[0])
    named = path.parent if path.stem in ("main", "app", "server", "launch", "run", "start", "webui") else path
    return re.sub(r"[^\w.-]+", "-", named.name.removesuffix(".py"))[:64].lstrip(".-") or "a-program"
