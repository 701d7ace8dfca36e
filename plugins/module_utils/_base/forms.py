# SPDX-License-Identifier: GPL-3.0-or-later
"""``data/forms/``: what the controller accepts of what owners write and hosts answer, as specs of `schema`.

A file has its specs by name. A word in place of a spec is the name of another one, there or given by the code. ``is``
names one that a spec is like but for its own keys; options are added to that one's. UNSHOWN in a pattern stands for the
characters of `schema.UNSHOWN`.
"""

from collections.abc import Mapping
from typing import Any, cast

from .gb10 import data_file
from .schema import UNSHOWN, Spec


def forms(name: str, **given: Spec) -> dict[str, Spec]:
    """The specs of ``data/forms/<name>.yml``. given: those that the file names and has not."""
    rows: Mapping[str, object] = data_file(f"forms/{name}")
    known: dict[str, Spec] = dict(given)

    def spec(row: object) -> Spec:
        if isinstance(row, str):
            if row not in known:
                known[row] = spec(rows[row])
            return known[row]
        own = dict(cast(Mapping[str, Any], row))
        base = spec(own.pop("is")) if "is" in own else Spec()
        for key in own.keys() & {"elements", "keys", "values"}:
            own[key] = spec(own[key])
        if "pattern" in own:
            own["pattern"] = own["pattern"].replace("UNSHOWN", UNSHOWN)
        if "any_of" in own:
            own["any_of"] = [spec(each) for each in own["any_of"]]
        if "options" in own:
            own["options"] = base.get("options", {}) | {key: spec(each) for key, each in own["options"].items()}
        return cast(Spec, {**base, **own})

    return {row: spec(row) for row in rows}
