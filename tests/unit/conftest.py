# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Properties: nothing is timed, since these machines are shared; CI looks at the same examples each time."""

from __future__ import annotations

import gc
import os
import pickle
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import hub_server
import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._base.gb10 import SHIPPED_RECIPES
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes import recipe
from ansible_collections.gb10.fleet.plugins.module_utils._operations.undo import record as undo
from ansible_collections.gb10.fleet.plugins.module_utils._stores.weights import hub as hub_module
from hypothesis import settings

settings.register_profile("gb10", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("gb10")

_read = recipe.load


@cache
def _shipped(path: Path) -> bytes:
    return pickle.dumps(_read(path))


def _kept(path: Path, *engines: Any) -> Any:
    return _read(path, *engines) if path.parent != SHIPPED_RECIPES else pickle.loads(_shipped(path))


# Each of a thousand plans reads all shipped recipes: here once, and each gets a copy of its own.
recipe.load = _kept
# No test cuts the power; those whose disk is full put their own in its place.
os.fsync = lambda _descriptor: None


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.import_plugin("shuffle")


def pytest_collection_finish() -> None:
    """What is read by now lives until the end; to look for a test's garbage there took a sixth of the processors."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)


@pytest.fixture(autouse=True)
def usual_umask() -> Iterator[None]:
    """A module that writes secrets sets its process' umask, which here is that of all tests."""
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture(scope="session")
def undo_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("undo")


@pytest.fixture(autouse=True)
def undo_record(undo_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Modules note what they change; here not on this machine."""
    # Not by pytest's `mktemp`, which reads the names of all folders that earlier tests made, for each of 11,000.
    file = Path(tempfile.mkdtemp(dir=undo_folder)) / "undo.json"
    monkeypatch.setattr(undo, "FILE", file)
    monkeypatch.setattr(undo, "_LIBRARY", file.parent / "library")
    return file


@pytest.fixture
def hub(repository: hub_server.Hub, monkeypatch: pytest.MonkeyPatch) -> Iterator[hub_server.Hub]:
    """The hub's stand-in with the `repository` of the test's file; this machine's own token and proxy are not used."""
    monkeypatch.setattr(hub_module, "_LOOK_SECONDS", 0.05)
    for name in ("HF_TOKEN", "HF_TOKEN_PATH", "HTTP_PROXY", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    with hub_server.serving(repository) as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        yield hub
