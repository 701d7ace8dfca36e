# SPDX-License-Identifier: GPL-3.0-or-later
"""A check's result as other programs take it: JUnit for CI, Prometheus's text for its node exporter."""

from collections.abc import Iterator
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from .document import Document, Finding, Level

_SEVERITIES: tuple[Level, ...] = ("error", "warning", "hint")
_VERDICTS = ("clean", "drift", "unknown")


def junit(document: Document) -> str:
    """One suite a host: a failure a finding, an error for what could not be read, one passed case for a clean host."""
    root = _element("testsuites", name="gb10.fleet drift")
    for host in document["hosts"]:
        root.append(_suite(document, host["host"]))
    ElementTree.indent(root)
    text: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return text.decode() + "\n"


def _suite(document: Document, host: str) -> Element:
    findings = [
        finding for finding in document["findings"] if finding["host"] == host and finding["severity"] != "hint"
    ]
    unknown = [item for item in document["unknown"] if item["host"] == host]
    cases = [_case(host, f"{finding['resource']}: {finding['rule']}", _failure(finding)) for finding in findings]
    cases += [_case(host, machine["part"], _element("error", message=machine["why"])) for machine in unknown]
    cases = cases or [_case(host, "as declared")]
    counts = {"tests": len(cases), "failures": len(findings), "errors": len(unknown)}
    suite = _element("testsuite", name=host, **{name: str(count) for name, count in counts.items()})
    suite.extend(cases)
    return suite


def _case(host: str, name: str, *inner: Element) -> Element:
    case = _element("testcase", classname=f"drift.{host}", name=name)
    case.extend(inner)
    return case


def _failure(finding: Finding) -> Element:
    failure = _element("failure", type=finding["severity"], message=f"want {finding['want']}; have {finding['have']}")
    failure.text = _legal("\n".join(filter(None, (finding["reason"], finding["remedy"], finding["diff"]))))
    return failure


def _element(tag: str, **attributes: str) -> Element:
    return Element(tag, {name: _legal(text) for name, text in attributes.items()})


def _legal(text: str) -> str:
    """XML has no control characters, not even escaped."""
    return "".join(character for character in text if character in "\n\t" or character.isprintable())


def prometheus(document: Document, at: int, last_success: int) -> str:
    """For the node exporter's textfile collector.

    at, last_success: seconds since 1970; a success is a check with a verdict.
    """
    return "\n".join([*_metrics(document, at, last_success), ""])


def _metrics(document: Document, at: int, last_success: int) -> Iterator[str]:
    yield from _head("gb10_drift_findings", "Differences between a host and its plan, without accepted ones.")
    for host in document["hosts"]:
        for severity in _SEVERITIES:
            yield f"gb10_drift_findings{{{_labels(host=host['host'], severity=severity)}}} {host[severity]}"
    yield from _head("gb10_drift_unknown", "Parts of a host that could not be read.")
    for host in document["hosts"]:
        count = sum(item["host"] == host["host"] for item in document["unknown"])
        yield f"gb10_drift_unknown{{{_labels(host=host['host'])}}} {count}"
    yield from _head("gb10_drift_verdict", "1 for the fleet's verdict.")
    for verdict in _VERDICTS:
        yield f"gb10_drift_verdict{{{_labels(verdict=verdict)}}} {int(document['verdict'] == verdict)}"
    yield from _head("gb10_drift_last_run_timestamp_seconds", "When the fleet was last checked.")
    yield f"gb10_drift_last_run_timestamp_seconds {at}"
    yield from _head(
        "gb10_drift_last_success_timestamp_seconds", "When a check of the fleet last reached a verdict, clean or not."
    )
    yield f"gb10_drift_last_success_timestamp_seconds {last_success}"


def _head(name: str, text: str) -> Iterator[str]:
    yield f"# HELP {name} {text}"
    yield f"# TYPE {name} gauge"


def _labels(**labels: str) -> str:
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
