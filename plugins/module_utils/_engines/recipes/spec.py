# SPDX-License-Identifier: GPL-3.0-or-later
"""The shape of a recipe: how one model is served well on GB10, as a spec for `_base.schema.check`."""

from ..._base.forms import forms
from ..._base.schema import Spec
from ..._facts.models.purpose import CHAT, KINDS
from ..._facts.models.stored import GGUF
from ..interface import EngineSpec
from ..normal_form import normal_options

FLAGS: Spec = {
    "type": "map",
    "default": {},
    "normal": normal_options,
    "keys": {
        "type": "str",
        "pattern": r"[a-z][a-z0-9_-]*(\.[A-Za-z0-9_-]+\+?)*",
        "expected": "an option as the engine's own help writes it, without dashes before it: max-model-len",
    },
}
_KIND: Spec = {"type": "str", "choices": [*KINDS], "default": CHAT}
_FORMS = forms("recipe", kind=_KIND, gguf=GGUF, flags=FLAGS)
MOUNTED = _FORMS["folder_or_file"]["pattern"]
ENVIRONMENT, CONTAINER, MODEL = _FORMS["environment"], _FORMS["container"], _FORMS["model"]


def image_spec(engine: EngineSpec) -> Spec:
    """``image`` of a recipe. engine: what its families are."""
    family: Spec = {"type": "str", "required": True, "choices": [*engine.families]}
    return _with(_FORMS["image"], family=family)


def recipe_spec(engine: EngineSpec) -> Spec:
    """A recipe for one engine."""
    name: Spec = {"type": "str", "default": engine.name, "choices": [engine.name]}
    return _with(_FORMS["recipe"], engine=name, image=image_spec(engine))


def _with(form: Spec, **options: Spec) -> Spec:
    return {**form, "options": form["options"] | options}
