# SPDX-License-Identifier: GPL-3.0-or-later
"""All filters of the collection, imported once a run by an action that every run begins with.

A worker that uses a filter of a collection imports the files of all before it (ansible-core 2.19, `Jinja2Loader` in
`plugins/loader.py`), and each task of each host has a new worker: 54 ms of the controller every time. Its main process,
of which workers are copies, loads a task's action beforehand (`plugins/strategy/linear.py`), and with it this.
"""

import importlib
import pkgutil

from ansible_collections.gb10.fleet.plugins import filter as _package

for _file in pkgutil.iter_modules(_package.__path__, f"{_package.__name__}."):
    importlib.import_module(_file.name)
