# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a finding is: the parts of its address, and the one text that is made from them. Nothing reads that text back.

`_base.findings` puts a place into each finding; a program reads its parts, a person its text.
"""

import re
import reprlib
from dataclasses import dataclass, replace

_PLAIN_KEY = re.compile(r"[\w/-]+")
# One step of an option: a plain key, a key in quotes, an index.
_STEP = re.compile(r'(?:^|\.)(?P<key>[\w/-]+)|\["(?P<quoted>[^"]*)"\]|\[(?P<index>\d+)\]|, key "(?P<named>[^"]*)"')
# The parts of a launch whose options follow as words do: `argv --max-num-seqs`.
ARGV, _ENV = "argv", "env"
SERVICES = "fleet_services"


@dataclass(frozen=True, kw_only=True)
class Place:
    """An address. Each part is empty where it is not known, or does not say more.

    host, service, recipe: their names. more: how many more hosts it is the same on. variable: of the inventory,
    `fleet_gateway`; where a service is named it is `fleet_services`, unless it says otherwise. option: the key in it
    with what leads there, `flags.max-num-seqs`.
    thing: what a person looks up instead of these names: a file, a unit, a program; they are known all the same.
    part: of what the rest names, as `argv` of a service's launch; the option is in that part then.
    """

    host: str = ""
    more: int = 0
    service: str = ""
    recipe: str = ""
    variable: str = ""
    thing: str = ""
    part: str = ""
    option: str = ""

    @property
    def text(self) -> str:
        """As an owner looks it up: ``fleet_services.nano.port``, ``titan: /etc/netplan/40-cx7.yaml``."""
        words = self.part in (ARGV, _ENV)
        name = self._name if words else self._with_option
        part = f"{self.part} {self.option}".rstrip() if words else self.part
        host = self.host + (f" and {self.more} more" if self.more else "")
        return plain(": ".join(filter(None, (host, name, part))))  # with keys as others wrote them

    @property
    def _name(self) -> str:
        if self.thing:
            return self.thing
        if self.variable:
            return self.variable
        return f"{SERVICES}.{self.service}" if self.service else f"recipe {self.recipe}" if self.recipe else ""

    @property
    def _with_option(self) -> str:
        name, option = self._name, self.option
        if not name or not option:
            return name or option
        if self.thing:
            return f"{name}: {option}"
        return f"{name}{'' if option[0] in '[,' else '.'}{option}"

    def below(self, *keys: object) -> "Place":
        """The place of a key in a map, in a map of that map and so on; a number is the index of a list."""
        option = self.option
        for key in keys:
            if isinstance(key, str) and _PLAIN_KEY.fullmatch(key):
                option = f"{option}.{key}" if option else key
            else:
                option += f"[{shown(key)}]"
        return replace(self, option=option)

    def of_key(self, key: object) -> "Place":
        """The place of a key itself, where that is what is wrong."""
        return replace(self, option=f"{self.option}, key {shown(key)}")

    def within(self, around: "Place") -> "Place":
        """The place inside of another one: a word of a launch in its service, a key of a file on its host."""
        if self.part in (ARGV, _ENV):
            return replace(around, part=self.part, option=self.option)
        return replace(around, part=self.text) if self.text else around


def place_of(where: Place | str) -> Place:
    """A text alone is the name of a thing."""
    return Place(thing=where) if isinstance(where, str) else where


def argv(option: str = "") -> Place:
    """An option of a command line, as `--max-num-seqs`."""
    return Place(part=ARGV, option=option)


def env(name: str) -> Place:
    """A variable of an environment."""
    return Place(part=_ENV, option=name)


def keys_of(option: str) -> list[str | int]:
    """The keys and indexes that lead to an option, as `Place.below` has written them."""
    return [
        int(step["index"]) if step["index"] else step["key"] or step["quoted"] or step["named"] or ""
        for step in _STEP.finditer(option)
    ]


def plain(text: str) -> str:
    """Without what a terminal would obey."""
    return "".join(letter if letter.isprintable() or letter in "\n\t" else "?" for letter in text)


def shown(value: object) -> str:
    """A value as a sentence has it, cut where it is long."""
    if isinstance(value, str):
        return '"' + plain(value if len(value) <= 60 else value[:57] + "...") + '"'
    if isinstance(value, bool):
        return str(value).lower()
    try:
        return reprlib.repr(value)
    except ValueError:  # Python writes no whole number of more than 4300 digits
        return "of thousands of digits"
