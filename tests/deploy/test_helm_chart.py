"""The Helm chart: Helm accepts it, Kubernetes knows what it makes, and values that cannot work are refused."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from interlock.rooms.policy.parser import parse_policy
from interlock.service.settings import Settings, settings_from
from tests.harness.container import ROOT, Image
from tests.harness.helm_chart import CHART, HAS_HELM, Json, Refused, lint, manifests, notes
from tools import chart_schema

pytestmark = pytest.mark.skipif(not HAS_HELM, reason="Helm's library is not made for this system")

POLICY = "version: v1\nrules:\n  - {id: reads, when: {topic: 'knowledge.**'}, decision: allow}\n"
URL = "postgresql://interlock@database.example/interlock"
DATABASE = {"url": URL, "passwordSecret": {"name": "database", "key": "password"}}
CASES: dict[str, Json] = {
    "as it is": {},
    "on PostgreSQL": {"replicas": 3, "postgresql": DATABASE, "secret": {"name": "interlock", "key": "secret"}},
    "with everything": {
        "replicas": 2,
        "postgresql": DATABASE,
        "policy": POLICY,
        "imagePullSecrets": [{"name": "registry"}],
        "settings": {"drain_seconds": 45.5, "body_bytes_max": 67108864, "oidc_create": False, "oidc_name": 'A "B" ü'},
        "env": [{"name": "INTERLOCK_OIDC_CLIENT_SECRET", "valueFrom": {"secretKeyRef": {"name": "o", "key": "k"}}}],
        "service": {"type": "LoadBalancer", "port": 80, "annotations": {"a": "b"}},
        "ingress": {"enabled": True, "className": "nginx", "tlsSecret": "tls", "annotations": {"a": "b"}},
        "podAnnotations": {"a": "b"},
        "nodeSelector": {"a": "b"},
        "tolerations": [{"key": "a", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
    },
    "on a volume of one's own": {"storage": {"existingClaim": "mine"}},
}  # fmt: skip
# The oldest that the chart promises, and the newest that the schemas know.
KUBERNETES = ("1.25.0", "1.37.0")


def pod(made: dict[str, Json]) -> Json:
    return made["Deployment"]["spec"]["template"]["spec"]


def container(made: dict[str, Json]) -> Json:
    (only,) = pod(made)["containers"]
    return only


def config(made: dict[str, Json], folder: Path) -> Settings:
    """The settings of a server that finds this ConfigMap."""
    for name, text in made["ConfigMap"]["data"].items():
        (folder / name).write_text(text)
    return settings_from({}, config=str(folder / "interlock.toml"))


@pytest.mark.parametrize("values", CASES.values(), ids=CASES)
def test_helm_finds_no_mistake(values: Json) -> None:
    assert lint(values) == []


@pytest.mark.parametrize("version", KUBERNETES)
@pytest.mark.parametrize("values", CASES.values(), ids=CASES)
def test_kubernetes_knows_every_field_of_what_it_makes(values: Json, version: str) -> None:
    for manifest in manifests(values).values():
        kubernetes_validate.validate(manifest, version, strict=True)


def test_a_field_that_kubernetes_does_not_know_would_be_found() -> None:
    made = manifests()
    pod(made)["enableServiceLink"] = False
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(made["Deployment"], KUBERNETES[-1], strict=True)


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"replicas": 2}, "replicas must be 1 on SQLite"),
        ({"postgresql": {"url": "postgresql://interlock:pass@db/interlock"}}, "has a password"),
        ({"postgresql": {"url": "sqlite:///here.db"}}, "url"),
        ({"replica": 1}, "replica"),
        ({"settings": {"drain_second": 5}}, "drain_second"),
        ({"settings": {"drain_seconds": "long"}}, "drain_seconds"),
        ({"settings": {"secret": "x"}}, "secret"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_what_cannot_work_is_refused_with_its_reason(values: Json, why: str) -> None:
    with pytest.raises(Refused, match=why):
        manifests(values)


def test_the_schema_of_the_values_is_current() -> None:
    assert chart_schema.FILE.read_text() == chart_schema.render(), "run `make docs`"


def test_the_chart_is_of_the_version_of_the_program_and_its_image() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert [chart["version"], chart["appVersion"]] == [project["version"]] * 2
    assert container(manifests())["image"] == f"interlock:{project['version']}"


def test_the_server_reads_the_configuration_as_it_was_meant(tmp_path: Path) -> None:
    values = CASES["with everything"]
    settings = config(manifests(values), tmp_path)
    assert {name: getattr(settings, name) for name in values["settings"]} == values["settings"]
    assert (settings.store, settings.policy) == (URL, "/etc/interlock/policy.yaml")
    (mount,) = [each for each in container(manifests(values))["volumeMounts"] if each["name"] == "config"]
    assert Path(settings.policy).parent == Path(mount["mountPath"])
    assert parse_policy((tmp_path / "policy.yaml").read_text())


def test_a_server_without_postgresql_keeps_its_store_on_the_volume_of_the_image(tmp_path: Path) -> None:
    made = manifests()
    assert config(made, tmp_path).store.startswith("sqlite:///.interlock/")
    image = Image()
    mounts = {each["name"]: each["mountPath"] for each in container(made)["volumeMounts"]}
    assert mounts["data"] == image.last("WORKDIR") == image.last("VOLUME")
    image.close()
    assert {"name": "data", "persistentVolumeClaim": {"claimName": "interlock"}} in pod(made)["volumes"]
    assert made["Deployment"]["spec"]["strategy"] == {"type": "Recreate"}
    assert {"Deployment", "Service", "ConfigMap", "PersistentVolumeClaim"} == set(made)


def test_several_servers_share_postgresql_and_no_two_go_at_once() -> None:
    made = manifests(CASES["on PostgreSQL"])
    assert "PersistentVolumeClaim" not in made
    assert made["Deployment"]["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    budget = made["PodDisruptionBudget"]["spec"]
    assert budget["maxUnavailable"] == 1
    labels = made["Deployment"]["spec"]["template"]["metadata"]["labels"]
    for selector in (budget["selector"]["matchLabels"], made["Service"]["spec"]["selector"]):
        assert selector.items() <= labels.items()
    secrets = {
        each["name"]: each["valueFrom"]["secretKeyRef"]
        for each in container(made)["env"]
        if "valueFrom" in each
    }
    assert secrets == {
        "INTERLOCK_SECRET": {"name": "interlock", "key": "secret"},
        "PGPASSWORD": {"name": "database", "key": "password"},
    }


def test_the_pod_is_the_user_of_the_image_and_may_write_nowhere_else() -> None:
    image = Image()
    uid, gid = map(int, image.last("USER").split(":"))
    image.close()
    made = manifests()
    who = pod(made)["securityContext"]
    assert (who["runAsUser"], who["runAsGroup"], who["fsGroup"]) == (uid, gid, gid)
    assert who["runAsNonRoot"] is True
    assert container(made)["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_the_probes_ask_the_server_where_it_listens() -> None:
    only = container(manifests())
    (port,) = only["ports"]
    assert port["containerPort"] == Settings().port
    paths = {name: only[f"{name}Probe"]["httpGet"] for name in ("startup", "liveness", "readiness")}
    assert {name: each["path"] for name, each in paths.items()} == {
        "startup": "/healthz",
        "liveness": "/healthz",
        "readiness": "/readyz",
    }
    assert all(each["port"] == port["name"] for each in paths.values())


def test_kubernetes_does_not_set_what_would_be_read_as_a_setting() -> None:
    # For a Service called `interlock` it would set INTERLOCK_PORT to tcp://10.0.0.1:8700.
    assert pod(manifests())["enableServiceLinks"] is False


@pytest.mark.parametrize(("settings", "seconds"), [({}, 20), ({"drain_seconds": 45.5}, 45.5)])
def test_a_pod_has_longer_to_end_than_its_server_needs(settings: Json, seconds: float) -> None:
    made = manifests({"settings": settings})
    pause = int(container(made)["lifecycle"]["preStop"]["exec"]["command"][1])
    assert pod(made)["terminationGracePeriodSeconds"] > seconds + pause


def test_other_settings_make_other_pods() -> None:
    def checksum(values: dict[str, Any]) -> str:
        template = manifests(values)["Deployment"]["spec"]["template"]
        return template["metadata"]["annotations"]["checksum/config"]

    assert checksum({}) == checksum({})
    assert checksum({}) != checksum({"settings": {"log_level": "debug"}})


def test_an_ingress_leads_to_the_service() -> None:
    made = manifests(CASES["with everything"])
    (rule,) = made["Ingress"]["spec"]["rules"]
    (path,) = rule["http"]["paths"]
    assert path["backend"]["service"]["name"] == made["Service"]["metadata"]["name"]
    assert path["backend"]["service"]["port"]["name"] == made["Service"]["spec"]["ports"][0]["name"]


def test_the_notes_say_how_to_log_in_and_warn_where_nothing_is_sealed() -> None:
    assert "interlock login http://127.0.0.1:8700" in notes({})
    assert "name a Secret in `secret.name`" in notes({})
    assert "name a Secret" not in notes({"secret": {"name": "interlock"}})
