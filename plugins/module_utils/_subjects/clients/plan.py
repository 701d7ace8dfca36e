# SPDX-License-Identifier: GPL-3.0-or-later
"""A client's part of its host's slice."""

from collections.abc import Iterator

from ..._base import layout
from ..._base.addresses import from_its_host, in_url
from ..._base.slice import ClientSecret, ClientSlice, Files
from .declared import HERMES, Client
from .kinds import IN_CERTIFICATES, IN_SETTINGS, KINDS, Way, environment, settings, start, unit

# Where Debian and Ubuntu keep what a host trusts.
_CERTIFICATES = "/etc/ssl/certs"


def client_slice(
    name: str, client: Client, way: Way, model: str, context: int | None, keys_file: str, inventory: str
) -> ClientSlice:
    """One of ``hosts.<host>.clients``.

    client: as `_subjects.clients.declared.decide` completes it. model, context: those of an agent's service. keys_file:
    the gateway's, on the controller. files, folders, units: what is written here; secrets: what no plan holds, made of
    source on the controller; start: what decides whether it has to start anew (`_subjects.services.starts`); proof:
    what is asked of it.
    """
    folder, data = layout.client_folder(name), layout.client_data(name)
    run = _docker_run(name, client, way)
    files: Files = {
        f"{folder}/start": {"mode": "0755", "content": start(client)},
        f"{layout.UNITS}/{layout.client_unit(name)}": {"mode": "0644", "content": unit(name, client, run, inventory)},
    }
    for file, content in settings(client, way, model, context).items():
        files[f"{folder}/{file}"] = {"mode": "0644", "content": content}
    kind = client["kind"]
    secrets: list[ClientSecret] = [
        {"path": f"{folder}/gateway.env", "source": keys_file, "kind": kind, "key": client["key"]},
        {"path": f"{folder}/own.env", "source": client["secret_file"], "kind": kind, "key": ""},
    ]
    return {
        "name": name,
        "kind": client["kind"],
        "start": {
            "name": name,
            "unit": layout.client_unit(name),
            "container": layout.client_container(name),
            "image": client["image"]["reference"],
            "started": layout.client_started(name),
            "files": sorted([*files, *(secret["path"] for secret in secrets)]),
        },
        "unit": layout.client_unit(name),
        "units": {layout.client_unit(name): "started"},
        "files": dict(sorted(files.items())),
        "folders": {layout.CLIENTS: "0700", folder: "0700", f"{layout.STATE}/clients": "0700", data: None},
        "secrets": secrets,
        "secret_made": client["secret_made"],
        "listens": {"address": client["listen"], "port": client["port"]},
        "proof": {
            "kind": client["kind"],
            "url": f"http://{from_its_host(client['listen'])}:{client['port']}",
            "health": KINDS[client["kind"]].health,
            "account": client["account"],
            "models": [model] if client["kind"] == HERMES else list(way.models),
        },
    }


def _docker_run(name: str, client: Client, way: Way) -> list[str]:
    kind = KINDS[client["kind"]]
    words = ["/usr/bin/docker", "run"]
    for option, value in _options(name, client, way):
        words += [f"--{option}", value] if value else [f"--{option}"]
    for variable, value in environment(client, way).items():
        words += ["--env", f"{variable}={value}"]
    mounts = [
        (layout.client_folder(name), IN_SETTINGS, True),
        (_CERTIFICATES, IN_CERTIFICATES, True),
        (layout.client_data(name), kind.data, False),
    ]
    if client["kind"] == HERMES:
        mounts.append((f"{layout.client_folder(name)}/config.yaml", f"{kind.data}/config.yaml", True))
    for source, target, read_only in mounts:
        words += ["--mount", f"type=bind,source={source},target={target}" + (",readonly" if read_only else "")]
    return [*words, "--entrypoint", f"{IN_SETTINGS}/start", client["image"]["reference"]]


def _options(name: str, client: Client, way: Way) -> Iterator[tuple[str, str]]:
    """As a service's container, without the GPU: what it prints goes to the journal alone."""
    kind = KINDS[client["kind"]]
    yield from (("rm", ""), ("name", layout.client_container(name)), ("pull", "never"), ("log-driver", "none"))
    yield "cap-drop", "ALL"
    yield from (("cap-add", capability) for capability in kind.capabilities)
    yield from (("security-opt", "no-new-privileges"), ("pids-limit", "2048"), ("memory", str(kind.memory_limit)))
    yield "publish", f"{in_url(client['listen'])}:{client['port']}:{kind.port}"
    if way.address:
        yield "add-host", f"{way.name}:{way.address}"
