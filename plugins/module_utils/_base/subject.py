# SPDX-License-Identifier: GPL-3.0-or-later
"""What a subject is: one thing that a host is given and checked for, from the owner's words to the drift check.

Each package has its own, in ``subject.py``; `_subjects.registry` lists them once. On a host only ``reading.py`` runs,
with Python's standard library alone.
"""

import difflib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

from .declared_host import HostData
from .findings import Difference, Finding, Severity, host_error
from .gb10 import facts
from .managed import Managed, ManagedJson, managed
from .place import Place
from .plan import Plan
from .ranks import with_groups
from .reading import State
from .received import Foreign, harmless, one_line
from .schema import Spec
from .slice import Api, MonitoringSlice, PhoenixSlice, Slice
from .worded import rule_of, texts

# The playbook that repairs what is ours; the rest is for a person.
SITE = "site.yml"


@dataclass(frozen=True)
class SliceContext:
    """What a subject's slice of one host is decided from.

    settings: the host's checked ``fleet_host``. fleet: the checked variables of the fleet, without ``fleet_``.
    slices: what was decided for the host before. apis: ``{port, from, reason}`` of whatever answers clients here; from:
    the addresses that alone may come, empty for everybody. peers: addresses of the ranks that share a group with one
    of this host's. meetings: its own address in each group, and the port where the group's ranks meet.
    """

    settings: HostData
    fleet: Mapping[str, Any]
    slices: Slice
    apis: Sequence[Api] = ()
    peers: Sequence[str] = ()
    meetings: Sequence[tuple[str, int]] = ()


@dataclass(frozen=True)
class Questions:
    """What a reading of one host is asked by.

    slice: the host's, of the plan. addresses: of all rails of the fleet where it has rails, else none. weights_days:
    within how many days each file of weights is to be read byte by byte.
    """

    slice: Slice
    addresses: Sequence[str]
    weights_days: int


@dataclass(frozen=True)
class Unknown:
    """A part of a host that could not be read or judged: neither clean nor drifted."""

    host: str
    part: str
    why: str

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class DriftContext:
    """One host as a subject's comparison sees it.

    plan: the fleet's. states: what `host_info` read, by host, of all that could be read; an unknown part is None.
    silent: hosts that were asked and did not answer.
    """

    host: str
    plan: Plan
    states: Mapping[str, State]
    silent: Collection[str] = ()

    @property
    def state(self) -> State:
        return self.states[self.host]

    @property
    def slice(self) -> Slice:
        return self.plan["hosts"][self.host]

    @property
    def settings(self) -> Mapping[str, Any]:
        return self.plan["drift"]

    @property
    def our_units(self) -> list[str]:
        """Units here that this inventory asked for, now or once."""
        units = self.state["our_units"] or ()
        return [unit["unit"] for unit in units if unit["inventory"] == self.plan["inventory"]]

    @cached_property
    def look(self) -> "PreflightContext":
        """The host as its obstacles see it."""
        return PreflightContext(self.host, self.slice, self.state)

    def of_finding(self, finding: Finding, place: str = "", service: str = "") -> Difference:
        """A finding as a difference; a person puts it right, if it has a remedy. place: in place of its own."""
        words = {name: getattr(finding, name) for name in ("found", "expected", "remedy", "reason", "source")}
        return self.difference(finding.severity, finding.rule, place or finding.place, service=service, **words)

    def converge(self) -> str:
        """The remedy of what the playbook repairs."""
        return f"ansible-playbook {SITE} -l {with_groups(self.plan, [self.host])}"

    def differs(self, severity: Severity, row: str, place: str, service: str = "", **values: object) -> Difference:
        """A difference of this host whose words are a row of ``data/findings.yml``; the rest as of `difference`."""
        return self.difference(severity, rule_of(row), place, service=service, **texts(row, values))

    def difference(
        self, severity: Severity, rule: str, place: str, *, service: str = "", remedy: str = "", **words: Foreign | str
    ) -> Difference:
        """A difference of this host. Without a remedy it is one that site.yml puts right.

        place: what differs there. service: whose it is, if it is one service's. words: found and expected, and reason,
        source and diff where there are any.
        """
        at = Place(host=self.host, service=service, thing=place)
        shown = {name: harmless(word) for name, word in words.items()}
        shown |= {"remedy": remedy or self.converge(), "repairs": "" if remedy else SITE}
        return Difference(severity, rule, at, covers=(), **shown)


Obstacles = Iterator[Finding]


@dataclass(frozen=True)
class PreflightContext:
    """One host before a change, as a subject's obstacles see it: its slice of the plan and what was read of it.

    A part that could not be read is None or missing, and nothing is said of it.
    """

    host: str
    slice: Slice
    state: State
    # What was judged of it once, for all advice that asks.
    judged: dict[str, list[Finding]] = field(init=False, compare=False, default_factory=dict)

    def part(self, name: str) -> Any:
        """What was read; an empty map where it could not be."""
        found = self.state.get(name)
        return {} if found is None else found

    def others_at(self, port: int, ours: Collection[str] = ()) -> str:
        """Who else listens, ``nginx listens on port 443``; an empty text for nobody. ours: processes that may."""
        there = (listener for listener in self.state.get("listening") or () if listener["port"] == port)
        holders = {one_line(listener["process"]) for listener in there}
        return f"{' and '.join(sorted(holders)) or 'a program'} listens on port {port}" if holders - {*ours} else ""

    def of_another_inventory(self, part: MonitoringSlice | PhoenixSlice, subject: str) -> Obstacles:
        """Where two inventories ask one host for the same units, each would write them anew at every run.

        part: of the slice, with ``units`` and the ``inventory`` that asks for them. subject: `fleet_` declares it.
        """
        for unit in self.state.get("our_units") or ():
            if unit["unit"] in part["units"] and unit["inventory"] not in ("", part["inventory"]):
                yield host_error(
                    f"{subject}-foreign",
                    Place(variable=f"fleet_{subject}"),
                    found=f"{unit['unit']} was written by the inventory {one_line(unit['inventory'])}",
                    expected=f"a unit of this inventory, {part['inventory']}",
                    remedy=f"take fleet_{subject} out of one of the two inventories, or this host; where both are the "
                    f"same inventory, write fleet_name: {one_line(unit['inventory'])} in its group_vars/all",
                )

    @property
    def in_group(self) -> bool:
        """Whether a rank of a service on several hosts is to run here."""
        return bool(self.slice["needs"]["groups"])


Differences = Iterator[Difference | Unknown]


def _nothing_asked(_asked: Questions) -> Mapping[str, Any]:
    return {}


def _nothing_more(_view: DriftContext) -> Differences:
    yield from ()


def _nothing_in_the_way(_look: PreflightContext) -> Obstacles:
    yield from ()


@dataclass(frozen=True)
class Subject:
    """name: the key of its part in ``hosts.<host>`` of the plan.

    spec: what ``fleet_host.<name>`` may say. slice: the part of one host; None where the plan decides it over all.
    files: what is managed of a part. A part may also hold ``sysctl``, ``{key: value}`` of the running kernel, and
    ``units``, ``{unit: enabled | started}``; drift compares all these by itself.
    questions: what else a drift check asks of a host, for the parts that ``read`` names.
    read: the subject's own readings, ``READS`` of its ``reading.py``. differences: what else differs.
    obstacles: what of a host is in the way of its slice, or will hurt: for the preflight and doctor, before a change.
    """

    name: str
    spec: Spec | None = None
    slice: Callable[[SliceContext], Any] | None = None
    files: Callable[[Any], Iterable[Managed | ManagedJson]] = managed
    questions: Callable[[Questions], Mapping[str, Any]] = _nothing_asked
    read: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    differences: Callable[[DriftContext], Differences] = _nothing_more
    obstacles: Callable[[PreflightContext], Obstacles] = _nothing_in_the_way


def with_defaults(section: str, settings: Mapping[str, object]) -> dict[str, Any]:
    """What holds for GB10 with the host's own values over it; null leaves the thing alone."""
    merged = {key: settings.get(key, entry["value"]) for key, entry in sorted(facts()[section].items())}
    return {key: value for key, value in merged.items() if value is not None}


def unified(want: Foreign | str, have: Foreign | str) -> str:
    """A text that is wanted against the one that is there, as `Difference.diff`."""
    wanted, found = (harmless(text).splitlines() for text in (want, have))
    return "\n".join(difflib.unified_diff(wanted, found, "want", "have", lineterm="", n=1))
