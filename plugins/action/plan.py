# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of gb10.fleet.plan: the inventory's variables in, the plan out; runs on the controller, reaches no host."""

import contextlib
import json
import shutil
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from ansible.errors import AnsibleActionFail, AnsibleError
from ansible.utils.display import Display

# Every run begins with this action, which the main process loads: workers are copies of it, and each would else import
# all filters anew for each task of each host: 54 ms (`Jinja2Loader`, `plugins/strategy/linear.py`, ansible-core 2.19).
from ..filter import internal, kv_pool, recipe_import, vllm_flags  # noqa: F401
from ..module_utils._base import secret_files
from ..module_utils._base.findings import Finding, FleetError, did_you_mean, sentence
from ..module_utils._base.place import Place
from ..module_utils._base.plan import Plan
from ..module_utils._base.ranks import head_of
from ..module_utils._base.slice import GatewaySlice
from ..module_utils._engines.observed import FOLDER
from ..module_utils._engines.tracing.declared import headers_problems
from ..module_utils._operations.bundle.check import plan_from
from ..module_utils._operations.escrow import authorities, secrets_of
from ..module_utils._operations.pull.published import MOST_BYTES, checked
from ..module_utils._operations.verify.artifact import of_plan
from ..module_utils._plan.choice import (
    choose,
    chosen_hosts,
    declared_and_retired,
    judge_run,
    removal_of,
    retried,
    split_by_limit,
)
from ..module_utils._plan.inventory_files import declared_twice
from ..module_utils._plan.keys import key_problems, secret_file
from ..module_utils._plan.text import WIDTH, as_json, as_text, concerning, findings_text
from ..module_utils._stores.lock.file import NAME
from ..module_utils._subjects.gateway.clients import client_problems
from ..module_utils._subjects.tls.subject import of_owner
from ..plugin_utils._bundle_key import trusted_key, used
from ..plugin_utils._certificates import described
from ..plugin_utils._documented import OnController
from ..plugin_utils._git import secrets_in_git
from ..plugin_utils._made_certificates import ca_problems
from ..plugin_utils._origin import files_of, located
from ..plugin_utils._planning import Planning, fleet_hosts
from ..plugin_utils._screen import for_people, refusal, show
from ..plugin_utils._who import this_run

PREFIX = "fleet_"


class ActionModule(OnController, Planning):
    def act(self, options: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        hosts = list(variables["ansible_play_hosts_all"])
        if options["pulled"]:
            return {"changed": False} | _taken(Path(options["pulled"]), hosts)
        declared = self.declaration(variables)
        folder, lock_file = declared.folder, declared.lock_file
        plan = declared.planned(relock=options["relock"])
        plan, of_bundle = self._from_bundle(plan, hosts, folder, options["bundle"])
        raw = {name: variables["hostvars"].raw_get(name) for name in fleet_hosts(variables)}
        twice = [{**one.as_dict(), "hosts": []} for one in declared_twice(files_of(raw, PREFIX, folder))]
        findings = [{**item, "place": located(item, raw, folder)} for item in [*twice, *concerning(plan, hosts)]]
        services, problems = choose(plan, options["scope"], options["service"])
        of_files = [*self._encrypted_keys(plan, services), *self._certificates(plan, services)]
        of_files += [*_hub_tokens(variables["hostvars"], hosts), *of_bundle, *secrets_in_git(secrets_of(plan))]
        findings += [{**file.as_dict(), "hosts": []} for file in of_files]
        problems += [*declared_and_retired(plan, options["retire"]), *retried(plan, options["retry"])]
        split = [*split_by_limit(plan, services, hosts, options["service"])]
        judged = judge_run(findings, problems, split, options["partial"])
        explain = None if Display().verbosity else options["explain"]
        if explain and explain not in (*hosts, *plan["services"]):
            problem = f"explain: found {explain!a}; expected a service or host of this run"
            raise AnsibleActionFail(f"{problem}; {did_you_mean(explain, [*hosts, *plan['services']])}")
        if options["show"]:
            unseen = [name for name in declared.unseen if name in {*hosts} and plan["hosts"][name]["services"]]
            if unseen and options["format"] == "text":
                show(f"128 GB assumed of {', '.join(unseen)}, until somebody looks: gb10.fleet.doctor does")
            shown = cast(Plan, {**plan, "findings": judged.shown})
            show(as_json(plan) if options["format"] == "json" else as_text(shown, hosts, _width(), explain))
            if judged.of_plan and for_people() and options["format"] == "text":
                raise AnsibleActionFail(f"the plan has {_count(judged.of_plan)}, which the page above ends with")
        if judged.errors and options["refuse"]:
            begin = f"nothing was changed, since the plan has {_count(len(judged.errors))}"
            raise refusal(f"{begin}:\n\n{findings_text(judged.errors, _width())}", f"{begin}, named above")
        for finding in judged.warnings if options["warn"] and options["refuse"] and not options["show"] else ():
            # Ansible keeps a task's own warnings back where tasks that went well are not shown (display_ok_hosts)
            show(f"[WARNING]: {sentence(finding)}")
        chosen = chosen_hosts(plan, services, hosts, options["scope"], options["service"])
        removal = removal_of(plan, hosts, options["retire"])
        returned = {"plan": plan, "hosts": hosts, "services": services, "chosen": chosen, "removal": removal}
        returned |= {"retry": options["retry"], "run": this_run(folder)}
        files: dict[str, Any] = {"observed": str(folder / FOLDER), "lock_file": str(lock_file)}
        if options["bundle"]:
            files["bundle"] = {"folders": _folders(options["bundle"]), "inventory": str(folder)}
        return {"changed": False, "alone": False} | returned | files | of_plan(plan, services)

    def _from_bundle(self, plan: Plan, hosts: list[str], folder: Path, written: str) -> tuple[Plan, list[Finding]]:
        """The plan with the bundle as source, and what is wrong with that one."""
        if not written:
            return plan, []
        try:
            return plan_from(plan, [Path(one) for one in _folders(written)], hosts, trusted_key(folder), *used(folder))
        except FleetError as problem:
            return plan, [*problem.findings]

    def _encrypted_keys(self, plan: Plan, services: list[str]) -> list[Finding]:
        """What is wrong with keys that ansible-vault has to decrypt, before any host is changed."""
        findings: list[Finding] = []
        for name in services:
            key = head_of(plan, name)["key"]
            if key and secret_files.is_encrypted(path := Path(key["source"])):
                # without the Vault's password a plan can be read all the same: the role that needs the key asks for it
                with contextlib.suppress(AnsibleError):
                    content = self._loader.get_text_file_contents(str(path))
                    findings += key_problems(Place(service=name, option="api_key_file"), path, content)
            headers = head_of(plan, name)["trace_headers"]
            if headers and secret_files.is_encrypted(path := Path(headers["source"])):
                with contextlib.suppress(AnsibleError):
                    content = self._loader.get_text_file_contents(str(path))
                    findings += headers_problems(Place(service=name, option="tracing.headers_file"), path, content)
        gateway = _gateway(plan)
        if gateway and secret_files.is_encrypted(path := Path(gateway["clients"]["source"])):
            with contextlib.suppress(AnsibleError):
                text = self._loader.get_text_file_contents(str(path))
                findings += client_problems(Place(variable="fleet_gateway", option="keys_file"), str(path), text)
        return findings

    def _certificates(self, plan: Plan, services: list[str]) -> Iterator[Finding]:
        """What is wrong with certificates today, before any host is changed; a run renews those of the local CA."""
        now = datetime.now(UTC)
        for ca in sorted(authorities(plan)):
            yield from ca_problems(Path(ca), now)
        shown = [(Place(service=name), head_of(plan, name)["tls"]) for name in services]
        if gateway := _gateway(plan):
            shown.append((Place(variable="fleet_gateway"), gateway["tls"]))
        for place, tls in shown:
            if tls is None or tls["ca"]:
                continue
            try:
                files = [tls[kind]["source"] for kind in ("certificate", "key")]
                texts = [self._loader.get_text_file_contents(file) for file in files]
            except (AnsibleError, UnicodeError):
                continue  # without the Vault's password, as above
            yield from of_owner(place, tls, described(texts[0], now, texts[1]))


def _folders(bundle: str) -> list[str]:
    """The folders of ``-e bundle=/media/new,/media/old``."""
    return [
        str(Path(folder_name.strip()).expanduser().absolute())
        for folder_name in bundle.split(",")
        if folder_name.strip()
    ]


def _taken(file: Path, hosts: Sequence[str]) -> dict[str, Any]:
    """What is returned of a published slice. AnsibleActionFail where this host lacks what no slice holds.

    hosts: those of the run, which has to be about this one alone.
    """
    try:
        with file.open("rb") as stream:
            slice_ = checked(json.loads(stream.read(MOST_BYTES)), str(file))
    except (OSError, ValueError, RecursionError) as problem:
        raise AnsibleActionFail(f"nothing was changed: {file} can't be read: {problem}") from None
    except FleetError as problem:
        raise AnsibleActionFail(f"nothing was changed: {problem}") from None
    if [*hosts] != [slice_["host"]]:
        raise AnsibleActionFail(
            f"nothing was changed: {file} is the slice of {slice_['host']}, and this run is about {', '.join(hosts)}; "
            "gb10-pull.service on that host runs it; from a controller run site.yml without -e pulled [pull-host]"
        )
    missing = [secret for secret in slice_["held"] if not Path(secret["path"]).is_file()]
    if missing:
        raise AnsibleActionFail(
            f"nothing was changed: {missing[0]['what']} is not in {missing[0]['path']}, and no slice holds secrets; "
            f"run gb10.fleet.pull -l {slice_['host']} from the controller, which brings it [pull-secret-missing]"
        )
    fleet = slice_["fleet"]
    files = {"observed": str(file.parent / FOLDER), "lock_file": str(file.parent / NAME)}
    return {
        **fleet,
        "retry": [],
        "alone": True,
        "chosen": fleet["hosts"],
        **files,
        **of_plan(fleet["plan"], fleet["services"]),
    }


def _hub_tokens(hostvars: Any, hosts: list[str]) -> list[Finding]:
    """What is wrong with the hub's token, whose file is an option of the role model_store: of a run or an inventory.

    One with a relative path is looked for by that role, as by Ansible's copy.
    """
    named = {str(file) for name in hosts if (file := hostvars[name].get("model_store_token_file"))}
    files = sorted(file for name in named if (file := Path(name).expanduser()).is_absolute())
    return [
        item for file in files for item in secret_file(Place(thing="model_store_token_file"), file, "the hub's token")
    ]


def _gateway(plan: Plan) -> GatewaySlice:
    """The gateway's slice on the first of its hosts, on all of which it is the same; empty without one."""
    return plan["hosts"][plan["gateway"]["hosts"][0]]["gateway"] if plan["gateway"] else {}


def _width() -> int:
    """The terminal's columns; the usual width where the output goes elsewhere."""
    return max(80, shutil.get_terminal_size((WIDTH, 24)).columns)


def _count(errors: int) -> str:
    return "an error" if errors == 1 else f"{errors} errors"
