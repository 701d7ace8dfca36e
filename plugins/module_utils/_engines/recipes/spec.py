# SPDX-License-Identifier: GPL-3.0-or-later
"""The shape of a recipe: how one model is served well on GB10, as a spec for `_base.schema.check`."""

from ..._base.forms import forms
from ..._base.schema import Spec
from ..._facts.models.purpose import CHAT, KINDS
from ..._facts.models.stored import GGUF
from ..interface import EngineSpec
from ..normal_form import normal_options

# One line: a recipe's words end in units, logs and tables.
_LINE = r"[^\x00-\x08\x0a-\x1f\x7f\x85\u2028\u2029]"
_TEXT: Spec = {"type": "str", "min": 1, "pattern": f"{_LINE}+", "expected": "text on one line"}
# `docker run --mount` separates its parts by commas and has no escape; `..` would lead out of the folder that is meant.
_STEP = r"(?!\.\.(/|$))[^,/\x00-\x1f\x7f]*"
MOUNTED = rf"(/{_STEP})+"
_RELATIVE = rf"(?=[^/]){_STEP}(/{_STEP})*"
_FOLDER_OR_FILE: Spec = {
    "type": "str",
    "required": True,
    "pattern": MOUNTED,
    "expected": "an absolute path without .., comma and control characters",
}
_OF_HOST: Spec = {
    "type": "str",
    "pattern": r"(/(?!\.\.(/|$))[^/\x00-\x1f\x7f]*)+",
    "expected": "an absolute path of the host, without .. and control characters",
}
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
_FORMS = forms(
    "recipe",
    text=_TEXT,
    folder_or_file=_FOLDER_OR_FILE,
    of_host=_OF_HOST,
    target={
        "type": "str",
        "required": True,
        "pattern": f"{MOUNTED}|{_RELATIVE}",
        "expected": "a path in the container, or one below the model's folder; no .., comma, control character",
    },
    model_file={
        "type": "str",
        "pattern": _RELATIVE,
        "expected": "a file below the model's folder, without .., comma and control characters",
    },
    summary={
        **_TEXT,
        "required": True,
        "max": 200,
        "pattern": rf"{_LINE}*[^\\\s]",
        "expected": "one line of at most 200 characters that does not end in a backslash",
    },
    kind={"type": "str", "choices": [*KINDS], "default": CHAT},
    gguf=GGUF,
    flags=FLAGS,
)
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
