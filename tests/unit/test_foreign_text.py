# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Foreign text reaches a terminal, a rule, a file's name, a command, a page or a log by one function each."""

from __future__ import annotations

import ast
import re
import shlex
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._base import worded
from ansible_collections.gb10.fleet.plugins.module_utils._base.forms import forms
from ansible_collections.gb10.fleet.plugins.module_utils._base.received import file_name, harmless, one_line, shell_word
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes.spec import recipe_spec
from ansible_collections.gb10.fleet.plugins.module_utils._engines.registry import ENGINES
from ansible_collections.gb10.fleet.plugins.module_utils._host.netplan.judge import foreign_remedy

# the newest ansible-core is tried without it
api = pytest.importorskip("mypy.api")

ROOT = Path(__file__).resolve().parents[2]
PLUGINS = ROOT / "plugins"
HOSTILE = "titan\x1b]52;c;cm0gLXJm\x07\n$(reboot) `id` 'a' \u202e"

# Each line shows, runs or opens what a host output. To mypy each is an error.
WAYS = """\
show(f"{have}")
error("a", "b", found=have)
show(f"{'%s'}{have!r}")
show(f"{found.get('a', 'nothing')}")
show("of " + have)
show("{}".format(have))
show(", ".join(found.values()))
show(str(have))
show(have)
print(have)
show(repr(found))
error("a", "b", found=f"{have}")
error("a", have, found="b")
Finding("error", "a", Place(thing=have), found="b")
Unknown("titan", "a part", have)
Path("/etc", have)
Path("/etc").joinpath(have)
open(have)
os.remove(have)
subprocess.run(["true", have])
subprocess.run(f"true {have}", shell=True)
shlex.join(["true", have])
shlex.quote(have)
html.escape(have)
logging.getLogger().warning(have)
json_label(of=have)
known["titan"] = have
known[have] = "titan"
quoted(have)
show(f"{unread['a']}")
show(unread["a"]["b"])
show(str(unread.get("a")))
open(unread["config"]["digest"])
shlex.join(["true", unread["a"]])
known["titan"] = unread["a"]
Hub("hf", Path("/x")).main("a/b") + unread["sha"]
show(fetch("http://a", "", 1).text)
error("a", "b", found=fetch("http://a", "", 1).text)
show(fetch("http://a", "", 1).document()["data"])
show(HubApi().model("a/b", None)["cardData"])
checkpoint_of("a/b", unread["sha"], {}, {}, "the hub")
rank = judge.parse_metrics(fetch("http://a", "", 1).text, judge.Names())
open(text_of(b"a"))
show(streamed("http://a", {}, "", None)[0])
[show(event["status"]) for event in events("image")]
if isinstance(unread, dict): show(unread["a"])
if isinstance(unread, Mapping): show(f"{unread['a']}")
if isinstance(unread, list | tuple): show(unread[0])
if isinstance(have, bytes | str): show(have)
if not isinstance(unread, dict | list): show(unread)
if callable(have): show(have)
if hasattr(have, "strip"): show(have.strip())
show(json.dumps(have))
show(json.dumps({"a": unread}))
if have == "": raise ValueError(have)
show("".join(map(str, [have])))
show(functools.partial(str, have)())
show(string.Template("$a").substitute(a=have))
show(f"{Row(have)}")
show(asdict(Row(have))["text"])
show(vars(Row(have))["text"])
show(getattr(Row(have), "text"))
setattr(worded, "a", have)
show(f"{[have, 'a'][0]}")
show(str({"a": "b", "c": have}["c"]))
show(repr(max([1, unread], key=str)))
show("{}".format({**{"a": "b"}, "c": have}["c"]))
anything(have)
show("a" if isinstance(unread["a"], int | str) else "b")
show(first_of([have]))
"""
# What takes it.
TAKEN = """\
show(one_line(have))
show(f"{one_line(have, 4096)}")
show(harmless(have))
show(shell_word(have))
show("a" if have == "b" or have.startswith("c") or "d" in have or have in known else "e")
show(one_line(have[:12]))
worded.error("run-older/release", "a", release=have)
open(file_name(have))
show(one_line(words_of(unread["a"]["b"])))
show(fetch("http://a", "", 1).shown)
known["titan"] = str(checked(DIGEST, unread["config"]["digest"], "it"))
show(one_line(words_of(unread["a"]))) if is_map(unread) else None
[one_line(words_of(each)) for each in unread] if is_list(unread) else []
show("a" if isinstance(unread["a"], int | float) else "b")
show(", ".join(map(one_line, [have])))
"""
HEAD = """\
import functools, html, json, logging, os, shlex, string, subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from ansible_collections.gb10.fleet.plugins.module_utils._base import worded
from ansible_collections.gb10.fleet.plugins.module_utils._base.findings import Finding, error, first_of
from ansible_collections.gb10.fleet.plugins.module_utils._base.place import Place
from ansible_collections.gb10.fleet.plugins.module_utils._base.received import (
    DIGEST, Foreign, Unread, checked, file_name, harmless, is_list, is_map, one_line, shell_word, text_of, words_of)
from ansible_collections.gb10.fleet.plugins.module_utils._base.subject import Unknown
from ansible_collections.gb10.fleet.plugins.module_utils._facts.models.checkpoint import checkpoint_of
from ansible_collections.gb10.fleet.plugins.module_utils._on_host.rank import judge
from ansible_collections.gb10.fleet.plugins.module_utils._on_host.rank.client import fetch
from ansible_collections.gb10.fleet.plugins.module_utils._operations.drift.formats import _labels as json_label
from ansible_collections.gb10.fleet.plugins.module_utils._operations.verify.asked import streamed
from ansible_collections.gb10.fleet.plugins.module_utils._stores.images.pull import events
from ansible_collections.gb10.fleet.plugins.module_utils._stores.weights.hub import Hub
from ansible_collections.gb10.fleet.plugins.module_utils._stores.weights.hub_api import HubApi
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.gateway.haproxy import quoted
from ansible_collections.gb10.fleet.plugins.plugin_utils._screen import show
known: dict[str, str] = {}
@dataclass
class Row:
    text: Foreign
def anything(given: object) -> None: ...
def way(have: Foreign, found: dict[str, Foreign], unread: Unread) -> None:
"""


def test_no_other_way_passes_the_types(tmp_path: Path) -> None:
    lines = [*WAYS.splitlines(), *TAKEN.splitlines()]
    first = len(HEAD.splitlines()) + 1
    file = tmp_path / "ways.py"
    file.write_text(HEAD + "".join(f"    {line}\n" for line in lines), "utf-8")
    given = ["--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(tmp_path / "cache"), str(file)]
    with pytest.MonkeyPatch.context() as here:
        here.chdir(ROOT)
        output, _, _ = api.run(given)
    wrong = {int(line.split(":")[1]) for line in output.splitlines() if "ways.py" in line and " error: " in line}
    refused = [line for number, line in enumerate(lines, first) if number in wrong]
    assert refused == WAYS.splitlines()


# Who reads foreign text as it is. Each makes a value of its own form of it, or shows it by `DriftContext.difference`.
READERS = {
    "module_utils/_base/received.py": 3,
    "module_utils/_operations/drift/running.py": 1,
    "module_utils/_subjects/host_tuning/subject.py": 2,
    "module_utils/_subjects/services/subject.py": 2,
}


def calls(name: str) -> dict[str, int]:
    """By file, how often a function is named beside its definition and imports."""
    found: Counter[str] = Counter()
    for path in sorted(PLUGINS.rglob("*.py")):
        if name not in (text := path.read_text("utf-8")):
            continue
        for node in ast.walk(ast.parse(text)):
            named = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
            found[str(path.relative_to(PLUGINS))] += named == name
    return {path: count for path, count in found.items() if count}


def test_few_read_it_as_it_is() -> None:
    assert calls("to_read") == READERS


# Who reads JSON otherwise than by `received.parsed`, whose value only a form or its own reader takes: files of ours, on
# the controller or a host, and programs of the host that reads. Nothing that comes from elsewhere is read here.
OWN_FILES = {
    "action": "what this run made, or a slice that `published.checked` takes",
    "modules": "what the supervisor of this host wrote",
    "plugin_utils": "files beside the inventory, and the collection's own",
    "module_utils/_base": "`parsed` itself, and the note of who stages",
    "module_utils/_engines": "data, words of a declaration, and files beside the inventory; each in a form",
    "module_utils/_facts/models/checkpoint.py": "a model's config.json, which `require` takes",
    "module_utils/_host": "settings of the host that reads",
    "module_utils/_on_host": "the standard library's reader: these files are copied to hosts alone",
    "module_utils/_operations": "records of ours, and what programs of this machine print",
    "module_utils/_stores": "Docker of the host that reads, and records of ours",
    "module_utils/_subjects": "programs of the host that reads; the controller takes their answers by `form`",
}


def test_json_of_others_is_read_by_one_function() -> None:
    """How many read it otherwise; who adds one names its kind above, or takes `parsed`."""
    read = calls("loads") | {}
    assert {path for path in read if not path.startswith(tuple(OWN_FILES))} == set()
    assert sum(read.values()) <= 113, read
    readers = ("hub_api", "asked", "verify/client", "verify/gateway", "stores/images/layout", "stores/weights/source",
             "stores/peers/request", "update/apt", "stores/transfer/peer", "bench/form")  # fmt: skip
    assert {path for path in read if any(f"{reader}.py" in path for reader in readers)} == {
        "module_utils/_operations/verify/asked.py"  # each line of an answer: numbers, and words that are foreign again
    }


# Who asks of foreign text whether it is one: to mypy it is plain text from there on. What each does with it.
ASKS = {"module_utils/_base/received.py": {"words_of": "foreign again", "matching": "a form that it is held against"}}
# Who takes any text as its form: each hands it to a reader or a form of its own.
ANYTHING = {
    "module_utils/_base/received.py": 1,
    "module_utils/_facts/models/checkpoint.py": 1,  # `_ANSWER`
    "module_utils/_operations/update/look.py": 1,  # `one_line`
    "module_utils/_operations/verify/client.py": 1,  # `harmless`
    "module_utils/_plan/trust.py": 1,  # a recipe's, which has its form
    "module_utils/_stores/weights/hub.py": 1,  # names that are compared
    "module_utils/_stores/weights/source.py": 1,  # `path_problem`
}
_FOREIGN = {"Foreign", "Unread", "parsed", "words_of", "text_of"}


def test_where_foreign_text_becomes_plain_by_a_question_is_known() -> None:
    """`isinstance(x, str)` in a file that reads foreign text, `case str()`, `type(x) is str` and a cast to str."""
    found: dict[str, set[str]] = {}
    for path in sorted(PLUGINS.rglob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        imported = {name.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)
                    and (node.module or "").endswith("received") for name in node.names}  # fmt: skip
        if not imported & _FOREIGN and path.name != "received.py":
            continue
        for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
            if any(map(_asks, ast.walk(function))):
                found.setdefault(str(path.relative_to(PLUGINS)), set()).add(function.name)
    assert found == {path: {*rows} for path, rows in ASKS.items()}
    assert calls("ANYTHING") == ANYTHING


# What mypy does not see: `%`, a method of every object, and a name or result of any type, which forgets its own.
FORGETS = {
    "filter/internal.py": {"internal"},  # what a filter of ours gives
    "module_utils/_base/subject.py": {"part"},  # a part of a reading, or an empty map
    "module_utils/_engines/recipes/formats.py": {"read_text"},  # another project's recipe, which a form takes
    "module_utils/_facts/models/checkpoint.py": {"_unusable"},  # the text of a problem
    "module_utils/_facts/models/gguf.py": {"_value", "scalar"},  # what `metadata` makes foreign
    "module_utils/_on_host/rank/endpoint.py": {"judged"},  # an answer, of which only its judge reads
    "module_utils/_operations/bench/burn_in.py": {"burn_in_verdict"},  # figures of minutes
    "module_utils/_operations/bundle/images.py": {"_judged", "content"},  # what `_for` and its reader take
    "module_utils/_plan/trust.py": {"_texts"},  # a recipe's, which has its form
    "module_utils/_stores/images/archive.py": {"_of_form"},  # what `checked` gives
}


def test_where_mypy_forgets_that_text_is_foreign_is_known() -> None:
    found: dict[str, set[str]] = {}
    for path in sorted(PLUGINS.rglob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        assert not [node.lineno for node in ast.walk(tree) if _hides(node)], path
        imported = {name.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for name in node.names}
        for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
            if imported & (_FOREIGN | {"State", "fetch"}) and any(map(_forgets, ast.walk(function))):
                found.setdefault(str(path.relative_to(PLUGINS)), set()).add(function.name)
    assert found == FORGETS


def _hides(node: ast.AST) -> bool:
    is_text = isinstance(node, ast.BinOp) and isinstance(node.left, ast.JoinedStr | ast.Constant)
    if is_text and isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
        return isinstance(node.left, ast.JoinedStr) or isinstance(getattr(node.left, "value", 0), str)
    return isinstance(node, ast.Attribute) and node.attr in ("__str__", "__repr__", "__format__")


def _forgets(node: ast.AST) -> bool:
    any_type = {"Any", "object"}
    if isinstance(node, ast.AnnAssign) and node.value is not None:
        return isinstance(node.annotation, ast.Name) and node.annotation.id in any_type
    if isinstance(node, ast.FunctionDef):
        return isinstance(node.returns, ast.Name) and node.returns.id in any_type
    if isinstance(node, ast.Match):
        return any(
            isinstance(case.pattern, ast.MatchClass | ast.MatchSequence | ast.MatchMapping) for case in node.cases
        )
    is_cast = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "cast"
    return is_cast and bool(any_type & {name.id for name in ast.walk(node) if isinstance(name, ast.Name)})


def _asks(node: ast.AST) -> bool:
    named = {name.id for name in ast.walk(node) if isinstance(name, ast.Name)}
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("isinstance", "cast"):
        kind = node.args[1 if node.func.id == "isinstance" else 0]
        return any(isinstance(name, ast.Name) and name.id == "str" for name in ast.walk(kind))
    is_case = isinstance(node, ast.MatchClass) and isinstance(node.cls, ast.Name) and node.cls.id == "str"
    return is_case or (isinstance(node, ast.Compare) and {"type", "str"} <= named)


# Characters that a terminal or a page obeys; each stands between two letters.
OBEYED = ("\x1b", "\x9b", "\n", "\t", "\u202e", "\u2066", "\u200b", "\ud800", "\U000e0041")
# What an engine takes as it is: options, which `flag_problems` reads, and a merged configuration. Screens show it by
# `harmless`.
_AS_THEY_ARE = {"flags", "json_merge", "memory.calibrations.elements.flags"}


def _texts(spec: Any, path: tuple[str, ...] = ()) -> Any:
    for each in spec.get("any_of", ()):
        yield from _texts(each, path)
    if spec.get("type") == "str" and "choices" not in spec:
        yield ".".join(path), spec.get("pattern", ".*")
    if spec.get("type") == "map" and "options" not in spec and not {"keys", "values"} <= spec.keys():
        yield ".".join(path), "[^x]*"
    for key, each in spec.get("options", {}).items():
        yield from _texts(each, (*path, key))
    for part in ("keys", "values", "elements"):
        if part in spec:
            yield from _texts(spec[part], (*path, part))


def test_no_text_of_a_recipe_or_a_model_holds_what_a_terminal_obeys() -> None:
    """Also of one that others keep, whose files become recipes of ours by the same form."""
    specs = [recipe_spec(engine.spec) for engine in ENGINES.values()]
    specs += [forms("gguf")[name] for name in ("facts", "projector")]
    let_in = {
        path
        for spec in specs
        for path, pattern in _texts(spec)
        for sign in OBEYED
        for text in (f"a{sign}a", f"/a{sign}a", f"1.1.1{sign}a", f"a/a{sign}a", f"a:1{sign}a")
        if re.fullmatch(pattern, text, re.DOTALL)
    }
    assert {path for path in let_in if not path.endswith(tuple(_AS_THEY_ARE))} == set()


def test_a_files_name_leads_nowhere_else() -> None:
    for name in ("../x", "/x", "a//b", ".x", "a/../b", "a\\b", "a\x1b", "a\n", "x" * 300, ""):
        with pytest.raises(ValueError, match="the path"):
            file_name(name)
    assert file_name("a/b.json") == "a/b.json"


def test_one_place_writes_to_the_terminal() -> None:
    """On the controller. What runs on a host writes to its journal, or JSON."""
    writes = {path for name in ("display", "prompt_until", "print") for path in calls(name)}
    ours = {path for path in writes if not path.startswith(("module_utils/", "modules/", "callback/"))}
    assert ours == {"plugin_utils/_screen.py", "plugin_utils/_questions.py"}


def test_a_form_fills_in_no_texts_but_those_that_were_cleaned() -> None:
    assert calls("format_map") == {"module_utils/_base/worded.py": 1}


def test_what_others_write_freely_is_foreign() -> None:
    """A text of a host's answer is foreign, or has a form that holds nothing that a terminal obeys."""
    source = (PLUGINS / "module_utils/_base/reading.py").read_text("utf-8")
    plain = [line.strip() for line in source.splitlines() if re.fullmatch(r"    .*[ \[]str\]?( \| None)?,?", line)]
    assert plain == ["names: list[str]", "why: str"]  # what the controller describes of a certificate


def test_each_function_leaves_nothing_that_its_reader_obeys() -> None:
    assert one_line(HOSTILE).isprintable() and harmless(HOSTILE).replace("\n", "").isprintable()
    assert shlex.split(f"true {shell_word(HOSTILE)}") == ["true", one_line(HOSTILE)]
    texts = worded.texts("run-older/release", {"release": HOSTILE, "person": "a", "at": "b", "ours": "c"})
    assert all(text.replace("\n", "").isprintable() for text in texts.values())


def test_a_profiles_name_is_one_word_of_the_command_that_deletes_it() -> None:
    command = re.findall("`(.*)`", foreign_remedy("/etc/netplan/90-NM-a; reboot.yaml"))
    assert [shlex.split(words) for words in command] == [["nmcli", "connection", "delete", "a; reboot"]]


def test_no_message_names_a_file_that_the_system_does_not_name() -> None:
    """An OSError of a full disk has none, and a message that begins with it would begin with None."""
    bare = [
        f"{path.relative_to(PLUGINS)}:{part.lineno}"
        for path in sorted(PLUGINS.rglob("*.py"))
        if "filename" in (text := path.read_text("utf-8"))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FormattedValue)
        for part in [node.value]
        if isinstance(part, ast.Attribute) and part.attr in ("filename", "filename2")
    ]
    assert bare == []
