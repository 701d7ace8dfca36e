# SPDX-License-Identifier: GPL-3.0-or-later
"""Over the services of a host: which of them changed, and what they read."""

from collections.abc import Iterable, Mapping, Sequence
from posixpath import dirname
from typing import Any

from ..._base.layout import model_folder, supervisor_file

Service = Mapping[str, Any]


def changed_services(
    services: Sequence[Service],
    results: Sequence[Any],
    read: Mapping[str, Mapping[str, Any]],
    brought: Iterable[str] = (),
) -> list[str]:
    """The services to be started anew. One whose supervisor is another goes on, and takes it at its next start.

    services: of the host's slice. results: registered results of loops over services or their names, or over
    ``[service, ...]`` of either; a task that was skipped has none; or of `service_credentials`, which names them.
    program: whether it changed. read: of each service, as `_subjects.services.starts` reads it. brought: the models of
    which this run brings files, in check mode would.
    """
    names = [str(service["name"]) for service in services]
    models = [*brought]
    items = [item for result in results for item in (result.get("results") or () if result else ())]
    changed = {_name(item["item"]) for item in items if item.get("changed") and not _later(item)}
    changed |= {name for result in results for name in (result or {}).get("changed_services", ())}
    changed |= {name for name, one in read.items() if one["newer"] or one["other_image"]}
    changed |= {service["name"] for service in services for model in models if reads_model(service, model)}
    return [name for name in names if name in changed]


def reads_model(service: Service, model: str) -> bool:
    return any(path.startswith(f"{dirname(model_folder(model, None))}/") for path in service["models"])


def _later(result: Mapping[str, Any]) -> bool:
    """Whether what changed matters at the next start alone."""
    return result.get("changed_files") == [supervisor_file(_name(result["item"]))]


def _name(item: Any) -> str:
    service = item if isinstance(item, Mapping | str) else item[0]
    return service if isinstance(service, str) else str(service["name"])


def service_starts(services: Iterable[Service]) -> list[dict[str, Any]]:
    """``{name, unit, container, image, started, files}`` of each service.

    started: the file that its supervisor leaves when it begins. files: that it or the container read then.
    """
    return [
        {
            "name": service["name"],
            "unit": service["unit"],
            "container": service["container"]["name"],
            "image": service["container"]["image"],
            "started": f"{dirname(service['status_file'])}/started",
            "files": _files(service),
        }
        for service in services
    ]


def _files(service: Service) -> list[str]:
    """Weights are folders of links, which are made anew whenever a file of theirs was brought."""
    secrets = [service[kind]["path"] for kind in ("key", "secret") if service[kind]]
    # of a host that fetches its slice itself, which names no secret (`_operations.pull.published`)
    secrets += service.get("held", ())
    secrets += [service["tls"][kind]["path"] for kind in ("certificate", "key")] if service["tls"] else []
    later = supervisor_file(service["name"])
    written = [path for path, file in service["files"].items() if file["content"] is not None and path != later]
    return sorted([*written, *secrets, *(one["path"] for one in service["merged"]), *service["models"]])
