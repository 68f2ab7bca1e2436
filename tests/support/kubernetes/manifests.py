"""The manifests of deploy/kubernetes, as Kubernetes would get them."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from tests.support.repository import REPOSITORY

FOLDER = REPOSITORY / "deploy" / "kubernetes"
BASE, KEDA, SECCOMP = FOLDER / "base", FOLDER / "keda", FOLDER / "seccomp"
OVERLAYS = sorted(path.parent for path in (FOLDER / "overlays").glob("*/kustomization.yaml"))
OF_KEDA = "keda.sh/v1alpha1"
VERSIONS = ("1.30", "1.37")
"""The oldest and the newest version of Kubernetes whose schemas the manifests meet."""
KEDA_SCHEMA = Path(__file__).with_name("keda.json")
METRICS_API = {"url", "valueLocation", "targetValue", "activationTargetValue", "authMode", "format", "unsafeSsl"}
"""What KEDA's trigger `metrics-api` reads among `metadata`; its schema lets any name pass."""

Object = dict[str, Any]


def documents(path: Path) -> list[Object]:
    """The objects, or patches, in a file."""
    return [one for one in yaml.safe_load_all(path.read_text()) if one is not None]


def kustomization(folder: Path) -> Object:
    """What the folder is made of."""
    (found,) = documents(folder / "kustomization.yaml")
    return found


def resources(folder: Path) -> Iterator[Object]:
    """The objects that the folder names, before any patch."""
    for name in kustomization(folder)["resources"]:
        path = folder / name
        yield from resources(path) if path.is_dir() else documents(path)


def built(folder: Path) -> list[Object]:
    """What `kubectl apply -k` would send."""
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("LOUD: no kubectl here, so no overlay is built; the base is checked all the same")
    done = subprocess.run([kubectl, "kustomize", str(folder)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return [one for one in yaml.safe_load_all(done.stdout) if one is not None]


def name_of(one: Object) -> tuple[str, str]:
    """Kind and name."""
    return one["kind"], one["metadata"]["name"]


def problems(one: Object) -> list[str]:
    """What a cluster would refuse in an object, or would not understand and leave out."""
    if one["apiVersion"] == OF_KEDA:
        schema = json.loads(KEDA_SCHEMA.read_text())
        check = jsonschema.Draft202012Validator({**schema, "$ref": f"#/$defs/{one['kind']}"})
        found = [error.message for error in check.iter_errors(one)]
        for trigger in one["spec"].get("triggers", ()):
            unknown = {*trigger.get("metadata", {})} - METRICS_API
            found += [f"metrics-api reads no {name}" for name in sorted(unknown)]
        return found
    found = []
    for version in VERSIONS:
        try:
            kubernetes_validate.validate(one, version, strict=True)
        except kubernetes_validate.ValidationError as error:
            found.append(f"{version}: {'.'.join(map(str, error.path))}: {error.message}")
    return found


def pod_of(one: Object) -> Object | None:
    """The template of the pods that an object makes, if it makes any."""
    template: Object | None = one.get("spec", {}).get("template") if one["kind"] != "ScaledObject" else None
    return template


def containers_of(one: Object) -> list[Object]:
    """The containers of its pods."""
    pod = (pod_of(one) or {}).get("spec", {})
    return [*pod.get("initContainers", ()), *pod.get("containers", ())]


def environment_of(container: Object, objects: list[Object]) -> dict[str, str]:
    """The variables of a container, but for those of Secrets."""
    maps = {one["metadata"]["name"]: one["data"] for one in objects if one["kind"] == "ConfigMap"}
    found: dict[str, str] = {}
    for source in container.get("envFrom", ()):
        if "configMapRef" in source:
            found |= maps[source["configMapRef"]["name"]]
    return found | {one["name"]: one["value"] for one in container.get("env", ()) if "value" in one}
