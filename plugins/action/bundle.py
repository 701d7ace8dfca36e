# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of gb10.fleet.bundle: the plan in, a folder with everything that it names out; runs on the controller."""

from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail

from ..module_utils._base import sizes, worded
from ..module_utils._base.gb10 import fact
from ..module_utils._base.own_files import unwritten
from ..module_utils._operations.bundle.build import Order, build, summary
from ..module_utils._operations.bundle.folder import Bundle, earlier
from ..module_utils._operations.bundle.manifest import LEAST_PART
from ..module_utils._operations.bundle.needs import Needs, needs, plan_hash
from ..plugin_utils._bundle_key import kept_key, trusted_key
from ..plugin_utils._documented import OnController
from ..plugin_utils._screen import show

# FAT's largest file is a byte short of 4 GiB.
_SHORT = 1
_CACHE = "~/.cache/gb10-fleet"


class ActionModule(OnController):
    def act(self, options: dict[str, Any], variables: dict[str, object]) -> dict[str, Any]:
        folder = Path(options["folder"]).absolute()
        wanted = needs(options["plan"], options["hosts"], options["packages"])
        try:
            if self._task.check_mode:
                before = earlier(folder, self._key(options), show)
                show(to_come := _to_come(wanted, folder, before["serial"]))
                return {"changed": True, "summary": to_come}
            order = self._order(options, wanted, folder)
            before = earlier(folder, order.key[1], show)
            public = trusted_key(Path(options["inventory"]))
            since = Bundle.of([Path(options["since"])], public).manifest if options["since"] else None
            made = build(order, folder, before, since, show)
        except OSError as problem:
            words = unwritten(problem, folder, "a folder of yours", "see to that, and run again")
            raise AnsibleActionFail(f"{words}: what has come is kept") from None
        show(words := summary(made, folder))
        diff = {"before": "", "after": "".join(f"{path}: removed\n" for path in made.dropped)}
        return {
            "changed": made.changed,
            "serial": made.manifest["serial"],
            "new_bytes": made.new_bytes,
            "summary": words,
            "diff": diff,
        }

    @staticmethod
    def _key(options: dict[str, Any]) -> bytes | None:
        """The site's public key, which a check does not make."""
        public = trusted_key(Path(options["inventory"]))
        return public.read_bytes() if public else None

    def _order(self, options: dict[str, Any], wanted: Needs, folder: Path) -> Order:
        part_bytes = _part_bytes(options["split"])
        # a folder of our own in what is named: it goes in the end
        work = Path(options["work"] or (_CACHE if part_bytes else folder)).expanduser() / ".gb10-fleet-work"
        file = options["apt_sources"]
        return Order(
            needs=wanted,
            plan=plan_hash(options["plan"]),
            architecture=options["architecture"] or fact("bundle", "architecture"),
            python=options["python"] or fact("bundle", "python"),
            sources=Path(file).read_text("utf-8") if file else fact("bundle", "apt_sources"),
            work=work.absolute(),
            hf=options["hf"],
            token_file=Path(options["token_file"]) if options["token_file"] else None,
            key=kept_key(Path(options["inventory"])),
            part_bytes=part_bytes,
        )


def _part_bytes(written: str | None) -> int | None:
    if not written:
        return None
    read = sizes.quantity(int(written) if written.isdigit() else written)
    if read is None or read - _SHORT < LEAST_PART:
        raise worded.refusal("bundle-split", "split", found=str(written))
    return read - _SHORT


def _to_come(wanted: Needs, folder: Path, serial: int) -> str:
    images = [image["reference"] for image in wanted.images]
    models = [model["repository"] for model in wanted.models]
    state = f"serial {serial} is there" if serial else "no bundle is there yet"
    return f"{folder}: {state}; the plan needs {', '.join([*images, *models, *wanted.packages, *wanted.tools])}"
