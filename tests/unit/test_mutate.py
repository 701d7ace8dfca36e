# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tool that breaks lines one at a time: what it breaks, whom it asks, and that it leaves the checkout alone."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from tools.mutate import Imports, Source, changed, mixed, spread

from tools import mutate

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("code", "broken"),
    [
        ("x = a < b", ["x = a <= b"]),
        ("x = a is not b", ["x = a is b"]),
        ("x = a not in b", ["x = a in b"]),
        ("x = 1 <= a < 2", ["x = (1 + 1) <= a < 2", "x = 1 < a < 2", "x = 1 <= a <= 2", "x = 1 <= a < (2 + 1)"]),
        ("x = a and b or c", ["x = ((c))", "x = ((b)) or c", "x = ((a)) or c", "x = ((a and b))"]),
        ("x = not a", ["x = (a)"]),
        ("x = True", ["x = False"]),
        ("if a:\n    b()", ["if (not (a)):\n    b()", "if a:\n    pass"]),
        ("x = b if a else c", ["x = b if (not (a)) else c"]),
        ("x = [b for b in c if b.d]", ["x = [b for b in c if (not (b.d))]"]),
        ("def f():\n    return a", ["def f():\n    return None"]),
        ("def f():\n    return None", []),
        ("def f():\n    yield a", ["def f():\n    yield from ()"]),
        ("def f():\n    yield from a", ["def f():\n    yield from ()"]),
        ("_SLOW = a < 60", ["_SLOW = a <= 60", "_SLOW = a < (60 + 1)"]),
        ("x = 'ü' == a", ["x = 'ü' != a"]),
    ],
)
def test_each_way_to_break_a_line(code: str, broken: list[str]) -> None:
    found = [one.of(code.encode()).decode() for one in Source("x.py", code).mutants()]
    assert sorted(found) == sorted(broken)
    for text in found:
        ast.parse(text)


@pytest.mark.parametrize(
    "code",
    [
        '"""One word, 1 < 2."""',
        "def f(a: Literal[1, 2] = b) -> tuple[3, 4]:\n    raise a",
        "@dataclass(frozen=True)\nclass A:\n    a: int",
        "if TYPE_CHECKING:\n    import a",
        "x = error(found=f'{a < b} or {c}', remedy='1' if a else b)",
        "x = f'{a or b}'",
        "_LEAST, MOST = 60, 2 * 60.0",
        "_NOTES: int = 60 << 20",
    ],
)
def test_what_a_person_or_a_type_checker_alone_reads_is_left(code: str) -> None:
    assert Source("x.py", code).mutants() == []


@pytest.mark.parametrize(
    "file", ["_engines/memory/budget.py", "_on_host/rank/judge.py", "_subjects/firewall/ruleset.py"]
)
def test_every_mutant_of_our_own_is_a_program(file: str) -> None:
    path = mutate.UTILS / file
    text = (ROOT / path).read_text("utf-8")
    mutants = Source(path.as_posix(), text).mutants()
    assert len(mutants) > 40
    for one in mutants:
        assert one.of(text.encode()) != text.encode()
        ast.parse(one.of(text.encode()))


def test_a_part_is_spread_over_all() -> None:
    mutants = Source("x.py", "\n".join(f"x = a{number} < b" for number in range(100))).mutants()
    assert [one.line for one in spread(mutants, 4)] == [1, 26, 51, 76]
    assert spread(mutants[:3], 4) == mutants[:3]
    order = mixed(mutants)
    assert sorted(order, key=lambda one: one.line) == mutants
    assert max(one.line for one in order[:10]) > 60 and min(one.line for one in order[:10]) < 40
    assert mixed([]) == [] and mixed(mutants[:1]) == mutants[:1]


def test_lines_that_changed_since_a_commit(tmp_path: Path) -> None:
    def git(*words: str) -> None:
        own = ["-c", "user.name=x", "-c", "user.email=x@x.invalid", "-c", "init.defaultBranch=main"]
        subprocess.run(["git", *own, "-C", str(tmp_path), *words], check=True, capture_output=True)

    file = tmp_path / "plugins" / "a.py"
    file.parent.mkdir()
    (tmp_path / "b.py").write_text("x = 1\n")
    file.write_text("a = 1\nb = 1\nc = 1\n")
    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "one")
    file.write_text("a = 1\nb = 2\nc = 1\nd = 1\n")
    (tmp_path / "b.py").write_text("x = 2\n")
    assert changed(tmp_path, "HEAD") == {"plugins/a.py": {2, 4}}
    # on main itself: what is not committed yet, then the last commit
    assert changed(tmp_path, None) == changed(tmp_path, "HEAD")
    git("commit", "-qam", "two")
    assert changed(tmp_path, None) == {"plugins/a.py": {2, 4}}
    git("switch", "-qc", "mine")
    file.write_text("a = 1\n")
    git("commit", "-qam", "three")
    assert changed(tmp_path, None) == {}
    with pytest.raises(subprocess.CalledProcessError):
        changed(tmp_path, "no-such-commit")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A small one: `low` is tested by its own name, and through `high`."""
    fleet = tmp_path / "collections" / "ansible_collections" / "gb10" / "fleet"
    fleet.mkdir(parents=True)
    (fleet / "plugins").symlink_to("../../../../plugins")
    files = {
        "plugins/module_utils/_part/low.py": "def low(a):\n    if a > 3:\n        return 1\n    return 0\n",
        "plugins/module_utils/_part/loop.py": "def loop(a):\n    while a:\n        a.pop()\n    return len(a)\n",
        "plugins/module_utils/_part/high.py": "from .low import low\n\n\ndef high(a):\n    return low(a)\n",
        "plugins/module_utils/_part/alone.py": "x = 1 < 2\n",
        "tests/unit/test_low.py": "from {part} import low\n\n\ndef test():\n    assert low.low(9) > low.low(1) == 0\n",
        "tests/unit/test_loop.py": "from {part}.loop import loop\n\n\ndef test_loop():\n    assert loop([1]) == 0\n",
        "tests/unit/test_others.py": "from {part} import high\n\n\ndef test_high():\n    assert high.high(9) == 1\n",
        "tests/unit/test_red.py": "from {part} import high\n\n\ndef test_red():\n    assert high is None\n",
        "pyproject.toml": "[tool.pytest.ini_options]\npythonpath = ['collections', 'tests']\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        part = "ansible_collections.gb10.fleet.plugins.module_utils._part"
        (tmp_path / name).write_text(text.replace("{part}", part))
    return tmp_path


def test_the_tests_of_a_module_are_those_that_import_it_its_own_first(checkout: Path) -> None:
    imports = Imports(checkout)
    part = "plugins/module_utils/_part"
    assert imports.tests_of(f"{part}/low.py") == [f"tests/unit/test_{name}.py" for name in ("low", "others", "red")]
    assert imports.tests_of(f"{part}/high.py") == ["tests/unit/test_others.py", "tests/unit/test_red.py"]
    assert imports.tests_of(f"{part}/alone.py") == []
    assert imports.below(["tests/unit/test_others.py"]) == {f"{part}/high.py", f"{part}/low.py"}


def test_mutants_are_tried_on_a_copy_and_those_that_live_are_named(checkout: Path) -> None:
    before = {path: path.read_bytes() for path in checkout.rglob("*.py")}
    row = {"file": "plugins/module_utils/_part/alone.py", "line": "x = 1 < 2", "becomes": "<=", "reason": "equal"}
    (checkout / mutate.EQUIVALENT).parent.mkdir()
    (checkout / mutate.EQUIVALENT).write_text(yaml.safe_dump([row]))
    program = f"""
import json
import time
from pathlib import Path
from tools import mutate
mutate._LEAST_S = 2.0
root = Path({str(checkout)!r})
every = mutate.mutants_of(root, dict.fromkeys(mutate.files_of(root, "_part")))
found = mutate.tried(root, every, 1)
# in new processes, as where there is little time
anew = mutate.tried(root, every, 1, time.monotonic() + 600)
assert sorted(map(str, anew.lives)) == sorted(map(str, found.lives)), anew.lives
print(json.dumps([found.tried, found.equivalent, [str(one) for one in found.lives]]))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT / "tests", capture_output=True, text=True, check=True
    )
    tried, equivalent, lives = json.loads(done.stdout.splitlines()[-1])
    assert {path: path.read_bytes() for path in checkout.rglob("*.py")} == before
    # `a > 3` at its edge is in no test; of `alone.py` there is none at all; a loop without an end is noticed
    assert lives == [
        "plugins/module_utils/_part/alone.py:1: 1 -> (1 + 1)",
        "plugins/module_utils/_part/alone.py:1: 2 -> (2 + 1)",
        "plugins/module_utils/_part/low.py:2: > -> >=",
        "plugins/module_utils/_part/low.py:2: 3 -> (3 + 1)",
    ]
    assert (tried, equivalent) == (12, 1)
    assert done.stdout.count("lives: ") == 8
    one = Source("x.py", "x = a < b").mutants()[0]
    assert mutate.Result(12, [one] * 3, 1).rate == 75.0
    assert mutate.Result(0, [], 1).rate == 100.0


def test_each_row_of_equivalent_mutants_is_of_a_mutant_that_there_is() -> None:
    for file, line, becomes in mutate.equivalent(ROOT):
        mutants = mutate.mutants_of(ROOT, {file: None})
        assert (file, line, becomes) in {mutate.key(ROOT, one) for one in mutants}
