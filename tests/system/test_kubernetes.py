"""deploy/kubernetes: what Kubernetes and KEDA would refuse or leave out is refused here, and whatever is named exists.

No cluster is needed, and nothing is fetched.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
import yaml

from sluice.contracts.event import QUEUES
from sluice.workers.processes.shutdown import STOP_SECONDS
from sluice.workers.setting_names import unknown_variables
from sluice.workers.settings import Settings, load_settings
from tests.support.kubernetes.manifests import (
    BASE,
    FOLDER,
    KEDA,
    OF_KEDA,
    OVERLAYS,
    SECCOMP,
    Object,
    built,
    containers_of,
    documents,
    environment_of,
    kustomization,
    name_of,
    pod_of,
    problems,
    resources,
)
from tests.support.repository import REPOSITORY

ALL = [*resources(BASE), *resources(KEDA)]
OURS = [one for one in ALL if pod_of(one)]
WORKLOADS = {name: one for one in OURS for kind, name in [name_of(one)] if kind != "Job"}
GIVEN = {
    ("Secret", "sluice"): {"SLUICE_BROKER_URL", "SLUICE_LEDGER_URL", "SLUICE_OBJECT_STORE__URL", "SLUICE_SIGNING_KEY"},
    ("Secret", "sluice-object-store"): {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"},
    ("Secret", "sluice-search"): {"SLUICE_SEARCH__BRAVE_API_KEY"},
    ("Secret", "sluice-keda"): {"token"},
    ("ConfigMap", "chromium-seccomp"): {"chromium-seccomp.json"},
}
"""What the README has an operator make, with the keys that it names."""
NEVER_TO_ZERO = {"api", "gate", "query", "index", "reconciler"}
PARTS = [BASE, KEDA, SECCOMP]


@pytest.mark.parametrize("folder", [*PARTS, *OVERLAYS], ids=lambda folder: folder.name)
def test_every_file_is_named_by_its_kustomization_which_uses_four_fields_alone(folder: Path) -> None:
    made_of = kustomization(folder)
    fields = {"apiVersion", "kind", "resources", "patches", "images", "configMapGenerator"}
    assert set(made_of) <= fields
    named = {*made_of["resources"], *(one["path"] for one in made_of.get("patches", ()) if "path" in one)}
    assert {path.name for path in folder.glob("*.yaml")} == {one for one in named if "/" not in one} | {
        "kustomization.yaml"
    }
    for name in named:
        assert (folder / name).exists(), name


@pytest.mark.parametrize("one", [*ALL, *resources(SECCOMP)], ids=lambda one: "-".join(name_of(one)))
def test_every_object_is_valid_by_itself(one: Object) -> None:
    assert problems(one) == []


@pytest.mark.parametrize("overlay", OVERLAYS, ids=lambda folder: folder.name)
def test_every_overlay_is_built_and_what_it_builds_is_valid_and_whole(overlay: Path) -> None:
    objects = built(overlay)
    assert [(name_of(one), found) for one in objects if (found := problems(one))] == []
    assert missing(objects) == []
    names = [name_of(one) for one in objects]
    print(f"{overlay.name}: {len(names)} objects:", *("/".join(one) for one in sorted(names)), sep="\n  ")


@pytest.mark.parametrize("overlay", OVERLAYS, ids=lambda folder: folder.name)
def test_every_patch_has_a_target(overlay: Path) -> None:
    """Looked at without kustomize, too."""
    there = {name_of(one) for one in resources(overlay)}
    for patch in kustomization(overlay).get("patches", ()):
        if "target" in patch:
            assert patch["target"]["kind"] in {kind for kind, _ in there}
            assert yaml.safe_load(patch["patch"])["kind"] == patch["target"]["kind"]
        else:
            assert {name_of(one) for one in documents(overlay / patch["path"])} <= there
    images = {container["image"].partition(":")[0] for one in resources(overlay) for container in containers_of(one)}
    assert {image["name"] for image in kustomization(overlay).get("images", ())} <= images


def _of(kind: str, name: str) -> Object:
    return copy.deepcopy(next(one for one in ALL if name_of(one) == (kind, name)))


def _renamed(table: dict[str, Any], old: str, new: str) -> None:
    table[new] = table.pop(old)


TYPOS: list[tuple[str, str, Callable[[Object], object], str]] = [
    ("ScaledObject", "crawl", lambda one: _renamed(one["spec"], "minReplicaCount", "minReplicas"), "minReplicas"),
    ("ScaledObject", "crawl", lambda one: one["spec"]["triggers"][0]["metadata"].update(targetValue=8), "8 is not"),
    (
        "ScaledObject",
        "crawl",
        lambda one: _renamed(one["spec"]["triggers"][0]["metadata"], "valueLocation", "valuelocation"),
        "valuelocation",
    ),
    ("ScaledObject", "crawl", lambda one: one["spec"]["fallback"].pop("replicas"), "replicas"),
    ("TriggerAuthentication", "backlog", lambda one: one["spec"]["secretTargetRef"][0].pop("key"), "key"),
    (
        "Deployment",
        "crawl",
        lambda one: _renamed(
            containers_of(one)[0]["securityContext"], "readOnlyRootFilesystem", "readOnlyRootFileSystem"
        ),
        "readOnlyRootFileSystem",
    ),
    ("Deployment", "api", lambda one: one["spec"].update(replicas="2"), "2"),
    ("NetworkPolicy", "outside", lambda one: _renamed(one["spec"], "egress", "egres"), "egres"),
    ("PodDisruptionBudget", "api", lambda one: _renamed(one["spec"], "maxUnavailable", "maxUnavailible"), "maxUnav"),
]


@pytest.mark.parametrize(("kind", "name", "spoil", "told"), TYPOS, ids=[f"{one[1]}-{one[3]}" for one in TYPOS])
def test_a_typo_is_caught(kind: str, name: str, spoil: Callable[[Object], object], told: str) -> None:
    one = _of(kind, name)
    assert problems(one) == []
    spoil(one)
    assert any(told in problem for problem in problems(one)), problems(one)


def missing(objects: list[Object]) -> list[str]:
    """What an object names and nobody has."""
    return [f"{name_of(one)}: no {told}" for one in objects for told in _missing_of(one, objects)]


def _missing_of(one: Object, objects: list[Object]) -> Iterator[str]:
    keys = {name_of(other): {*other.get("data", ())} for other in objects} | GIVEN
    spec = one.get("spec", {})
    pods = [(other, template) for other in objects if (template := pod_of(other))]
    if pod := pod_of(one):
        assert one["kind"] == "Job" or _matches(spec["selector"]["matchLabels"], pod), name_of(one)
        volumes = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
        claims = {claim["metadata"]["name"] for claim in spec.get("volumeClaimTemplates", ())}
        for container in containers_of(one):
            for mount in container.get("volumeMounts", ()):
                if mount["name"] not in {*volumes, *claims}:
                    yield f"volume {mount['name']}"
            for source in container.get("envFrom", ()):
                for reference, kind in (("configMapRef", "ConfigMap"), ("secretRef", "Secret")):
                    if reference in source and (kind, source[reference]["name"]) not in keys:
                        yield f"{kind} {source[reference]['name']}"
            ports = {port["name"] for port in container.get("ports", ())}
            for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
                if probe in container and container[probe]["httpGet"]["port"] not in ports:
                    yield f"port of its {probe}"
        for volume in volumes.values():
            secrets = [volume["secret"]["secretName"]] if "secret" in volume else []
            secrets += [source["secret"]["name"] for source in volume.get("projected", {}).get("sources", ())]
            yield from (f"Secret {name}" for name in secrets if ("Secret", name) not in keys)
            if "configMap" in volume and ("ConfigMap", volume["configMap"]["name"]) not in keys:
                yield f"ConfigMap {volume['configMap']['name']}"
    match one["kind"]:
        case "StatefulSet":
            if ("Service", spec["serviceName"]) not in keys:
                yield f"Service {spec['serviceName']}"
        case "Service":
            for other, template in (found := [pair for pair in pods if _matches(spec["selector"], pair[1])]):
                ports = {port["name"] for container in containers_of(other) for port in container.get("ports", ())}
                wanted = {port["targetPort"] for port in spec["ports"]}
                if other["kind"] != "Job" and not wanted <= ports:
                    yield f"port {wanted - ports} of {template['metadata']['labels']}"
            if not found:
                yield "pod for its selector"
        case "PodDisruptionBudget":
            if not any(_matches(spec["selector"]["matchLabels"], template) for _, template in pods):
                yield "pod for its selector"
        case "NetworkPolicy":
            labels = [{"matchLabels": spec["podSelector"].get("matchLabels", {})}]
            for expression in spec["podSelector"].get("matchExpressions", ()):
                labels += [{"matchLabels": {expression["key"]: value}} for value in expression["values"]]
            for wanted in labels:
                if not any(_matches(wanted["matchLabels"], template) for _, template in pods):
                    yield f"pod with {wanted}"
        case "ScaledObject":
            if ("Deployment", spec["scaleTargetRef"]["name"]) not in keys:
                yield "Deployment to scale"
            for trigger in spec["triggers"]:
                if ("TriggerAuthentication", trigger["authenticationRef"]["name"]) not in keys:
                    yield "TriggerAuthentication"
        case "TriggerAuthentication":
            for reference in spec["secretTargetRef"]:
                if reference["key"] not in keys.get(("Secret", reference["name"]), ()):
                    yield f"key {reference['key']} of {reference['name']}"


def _matches(labels: dict[str, str], template: Object) -> bool:
    return labels.items() <= template["metadata"]["labels"].items()


def test_whatever_is_named_exists_and_the_readme_says_how_to_make_the_rest() -> None:
    assert missing(ALL) == []
    assert missing([*resources(SECCOMP)]) == []
    readme = (FOLDER / "README.md").read_text()
    for (_, name), keys in GIVEN.items():
        assert name in readme
        assert [key for key in keys if key not in readme] == []


@pytest.mark.parametrize(
    "spoil",
    [
        lambda one: containers_of(one)[0]["envFrom"][0]["configMapRef"].update(name="slice"),
        lambda one: containers_of(one)[0]["volumeMounts"][0].update(name="dada"),
        lambda one: containers_of(one)[0]["livenessProbe"]["httpGet"].update(port="htp"),
        lambda one: pod_of(one)["spec"]["volumes"][-1]["secret"].update(secretName="slice"),  # type: ignore[index]
    ],
)
def test_a_name_that_nothing_has_is_caught(spoil: Callable[[Object], object]) -> None:
    one = _of("Deployment", "api")
    spoil(one)
    assert len(missing([*ALL, one])) == 1


@pytest.mark.parametrize("overlay", [BASE, *OVERLAYS], ids=lambda folder: folder.name)
def test_every_variable_is_a_setting_with_a_value_that_it_takes(overlay: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    objects = [*resources(BASE)] if overlay == BASE else built(overlay)
    for container in (container for one in objects for container in containers_of(one)):
        environment = environment_of(container, objects)
        assert unknown_variables(Settings, environment) == []
        with monkeypatch.context() as patch:
            for name, value in environment.items():
                patch.setenv(name, value)
            settings = load_settings()
        assert settings.telemetry.metrics_address == "0.0.0.0:9464"
    secrets = {key: "" for (kind, _), keys in GIVEN.items() if kind == "Secret" for key in keys}
    assert unknown_variables(Settings, secrets) == []


def test_every_process_of_compose_runs_with_its_command_image_and_settings() -> None:
    compose = yaml.safe_load((REPOSITORY / "compose.yaml").read_text())["services"]
    services = {name: service for name, service in compose.items() if "build" in service}
    assert set(services) == set(WORKLOADS) == {"api", "reconciler", *QUEUES}
    for name, service in services.items():
        (container,) = containers_of(WORKLOADS[name])
        assert (container["args"], container["image"]) == (service["command"], service["image"])
        own = {key: str(value) for key, value in service["environment"].items() if key in ("SLUICE_HTTP_HOST",)}
        assert own.items() <= environment_of(container, ALL).items()
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        assert ports["metrics"] == 9464


@pytest.mark.parametrize("one", OURS, ids=lambda one: "-".join(name_of(one)))
def test_no_pod_may_more_than_it_needs(one: Object) -> None:
    """The standard *restricted* of Pod Security, and a root file system that nobody writes to."""
    pod = pod_of(one)["spec"]  # type: ignore[index]
    assert (pod["automountServiceAccountToken"], pod["enableServiceLinks"]) == (False, False), (
        "the variables of a Service named sluice-… would be taken for settings"
    )
    assert (pod["securityContext"]["runAsNonRoot"], pod["securityContext"]["runAsUser"]) == (True, 10001)
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not any("hostPath" in volume for volume in pod["volumes"])
    assert all("sizeLimit" in volume["emptyDir"] for volume in pod["volumes"] if "emptyDir" in volume)
    for container in containers_of(one):
        allowed = dict(container["securityContext"])
        seccomp = allowed.pop("seccompProfile", None)
        assert allowed == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        local = {"type": "Localhost", "localhostProfile": "sluice/chromium-seccomp.json"}
        assert seccomp == (local if container["name"] == "crawl" else None)
        assert {"cpu", "memory"} <= set(container["resources"]["requests"])
        assert "memory" in container["resources"]["limits"]


def test_a_pod_has_as_long_to_end_as_an_event_may_take() -> None:
    delivery, margin = Settings().delivery, 5.0
    for name, one in WORKLOADS.items():
        grace = pod_of(one)["spec"]["terminationGracePeriodSeconds"]  # type: ignore[index]
        stop = float(environment_of(containers_of(one)[0], ALL)["SLUICE_POOLS__STOP_SECONDS"])
        assert stop >= delivery.event_timeout_seconds
        assert grace >= (stop + STOP_SECONDS + margin if name in QUEUES else 30)


def test_budgets_stand_only_where_two_run_and_what_keda_scales_names_no_number() -> None:
    copies = {name: one["spec"].get("replicas") for name, one in WORKLOADS.items()}
    budgets = {one["metadata"]["name"] for one in ALL if one["kind"] == "PodDisruptionBudget"}
    assert budgets == {name for name, count in copies.items() if (count or 1) > 1} == {"api", "gate", "query", "index"}
    scaled = {one["metadata"]["name"]: one["spec"] for one in ALL if one["kind"] == "ScaledObject"}
    assert {name for name in scaled if copies[name] is not None} == set(), "each apply would undo what KEDA did"
    assert {name for name, spec in scaled.items() if spec["minReplicaCount"] == 0} == {"crawl", "search"}
    assert not NEVER_TO_ZERO & set(scaled)
    for name, spec in scaled.items():
        (trigger,) = spec["triggers"]
        assert trigger["metadata"]["url"] == f"http://api.sluice.svc:8080/v1/stages/{name}/backlog"
        assert trigger["metadata"]["activationTargetValue"] == "0"
        assert spec["fallback"]["replicas"] == 1


def test_only_what_must_reaches_the_web_and_nothing_private_is_part_of_it() -> None:
    policies = {one["metadata"]["name"]: one["spec"] for one in ALL if one["kind"] == "NetworkPolicy"}
    nothing = {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    assert policies["nothing"] == nothing
    outside = policies["outside"]
    to_web = {name for name, one in WORKLOADS.items() if _matches(outside["podSelector"]["matchLabels"], pod_of(one))}  # type: ignore[arg-type]
    assert to_web == {"crawl", "search", "reconciler"}
    blocks = [block["ipBlock"] for rule in outside["egress"] for block in rule["to"]]
    excepted = [ip_network(one) for block in blocks for one in block["except"]]
    for private in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "169.254.0.0/16"):
        assert ip_network(private) in excepted
    for private in ("fc00::/7", "fe80::/10", "::ffff:0:0/96", "64:ff9b::/96"):
        assert ip_network(private) in excepted
    (names,) = policies["names"]["podSelector"]["matchExpressions"]
    assert set(names["values"]) == {"api", "crawl", "search", "embed"}
    (others,) = policies["names-of-stores"]["podSelector"]["matchExpressions"]
    assert {*names["values"], *others["values"]} == {*WORKLOADS, "upgrade"}


def test_the_profile_of_the_browser_is_installed_where_its_pod_looks_for_it() -> None:
    (installer,) = [one for one in resources(SECCOMP) if one["kind"] == "DaemonSet"]
    (install,) = pod_of(installer)["spec"]["initContainers"]  # type: ignore[index]
    (node,) = [volume for volume in pod_of(installer)["spec"]["volumes"] if "hostPath" in volume]  # type: ignore[index]
    wanted = containers_of(WORKLOADS["crawl"])[0]["securityContext"]["seccompProfile"]["localhostProfile"]
    assert node["hostPath"]["path"] == f"/var/lib/kubelet/seccomp/{Path(wanted).parent}"
    assert Path(install["command"][-1]).name == Path(wanted).name
    assert (
        json.loads((REPOSITORY / "deploy" / "chromium-seccomp.json").read_text())["defaultAction"] == "SCMP_ACT_ERRNO"
    )
    assert all(one["apiVersion"] == OF_KEDA for one in resources(KEDA))
