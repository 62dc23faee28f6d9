"""Checks the Helm chart with Helm's own code, and writes the plain manifests that it makes.

chart.sh runs it: `chart.py check` fails where a manifest differs from what the chart makes, `chart.py write` writes them anew.
"""

import json
import pathlib
import subprocess
import sys

import helm_python as helm
import yaml

ROOT = pathlib.Path(__file__).resolve().parent.parent
CHART = ROOT / "deploy" / "helm" / "tidegate"
PLAIN = ROOT / "deploy" / "production"

EVERYTHING = {
    "autoscaling": {"enabled": True},
    "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
    "prometheusRule": {"enabled": True},
    "imagePullSecrets": [{"name": "registry"}],
    "files": {"petstore.yaml": "openapi: 3.1.0\n"},
    "secrets": ["tls"],
    "env": [{"name": "TIDEGATE_LOG", "value": "debug"}],
    "service": {"annotations": {"a": "b"}},
    "serviceAccount": {"annotations": {"a": "b"}},
    "podAnnotations": {"a": "b"},
    "nodeSelector": {"a": "b"},
    "tolerations": [{"key": "a", "operator": "Exists"}],
    "affinity": {"nodeAffinity": {}},
    "networkPolicy": {"clients": [{"namespaceSelector": {}}], "upstreams": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]},
}
NOTHING = {
    "podDisruptionBudget": {"enabled": False},
    "networkPolicy": {"enabled": False},
    "serviceAccount": {"create": False},
    "topologySpread": False,
}
WRONG = [
    {"replica": 2},
    {"replicas": 0},
    {"service": {"ports": []}},
    {"service": {"ports": [{"name": "public", "port": 80, "targetPort": 80}]}},
    {"autoscaling": {"cpuPercent": 101}},
    {"image": {"repository": ""}},
]

HEAD = "# Made by `make chart ARGS=write` of deploy/helm/tidegate: change the chart, or copy this and make it yours.\n"


def rendered(values):
    parts = helm.Chart.load(CHART).render(values, name="tidegate", namespace="tidegate")
    texts = {pathlib.Path(name).name: text for name, text in parts.items() if not name.endswith("NOTES.txt")}
    objects = [one for text in texts.values() for one in yaml.safe_load_all(text) if one]
    return texts, {(one["kind"], one["metadata"]["name"]): one for one in objects}


def refuse(what, found):
    sys.exit(f"{what}: {found}")


def lint():
    for values in ({}, EVERYTHING, NOTHING):
        told = helm.lint(CHART, values, strict=True)
        wrong = [one for one in told["messages"] if one["severity"] > 1]
        if wrong or told["errors"]:
            refuse("lint", json.dumps(told))
    for values in WRONG:
        try:
            helm.Chart.load(CHART).validate_schema(helm.Chart.load(CHART).merge_values(values))
        except helm.HelmError:
            continue
        refuse("the schema takes", values)


def examine():
    _, all_of_it = rendered(EVERYTHING)
    kinds = {kind for kind, _ in all_of_it}
    wanted = {"ConfigMap", "Deployment", "HorizontalPodAutoscaler", "NetworkPolicy", "PodDisruptionBudget", "PrometheusRule", "Service",
              "ServiceAccount", "ServiceMonitor"}
    if kinds != wanted:
        refuse("kinds", kinds ^ wanted)
    pod = all_of_it["Deployment", "tidegate"]["spec"]["template"]["spec"]
    container = pod["containers"][0]
    facts = {
        "not root": pod["securityContext"]["runAsNonRoot"] is True and pod["securityContext"]["runAsUser"] > 0,
        "no privileges": container["securityContext"]["allowPrivilegeEscalation"] is False,
        "no capabilities": container["securityContext"]["capabilities"] == {"drop": ["ALL"]},
        "read-only": container["securityContext"]["readOnlyRootFilesystem"] is True,
        "no token": pod["automountServiceAccountToken"] is False,
        "probes": all(container[probe]["httpGet"]["port"] == "status" for probe in ("startupProbe", "livenessProbe", "readinessProbe")),
        "one count of pods": "replicas" not in all_of_it["Deployment", "tidegate"]["spec"],
        "secrets": any(one["mountPath"] == "/etc/tidegate-secrets/tls" for one in container["volumeMounts"]),
        "rules": all_of_it["PrometheusRule", "tidegate"]["spec"] == yaml.safe_load((ROOT / "deploy" / "alerts.yaml").read_text()),
    }
    missing = [fact for fact, holds in facts.items() if not holds]
    if missing:
        refuse("the deployment", missing)
    _, least = rendered(NOTHING)
    if {kind for kind, _ in least} != {"ConfigMap", "Deployment", "Service"}:
        refuse("kinds", set(least))


def plain(values, names):
    texts, _ = rendered(values)
    lines = []
    for name in names:
        for line in texts[f"{name}.yaml"].strip().splitlines():
            if "helm.sh/chart:" not in line and "managed-by: Helm" not in line:
                lines.append(line.rstrip())
        lines.append("---")
    return HEAD + "\n".join(lines[:-1]) + "\n"


def manifests(way):
    core = ["serviceaccount", "configmap", "service", "deployment", "poddisruptionbudget", "horizontalpodautoscaler", "networkpolicy"]
    for file, values, names in (
        ("kubernetes.yaml", {"autoscaling": {"enabled": True}}, core),
        ("monitoring.yaml", {"serviceMonitor": {"enabled": True}, "prometheusRule": {"enabled": True}}, ["servicemonitor", "prometheusrule"]),
    ):
        text = plain(values, names)
        if way == "write":
            (PLAIN / file).write_text(text)
        elif (PLAIN / file).read_text() != text:
            refuse(file, "it is not what the chart makes: run `make chart ARGS=write`")


def configuration(program):
    """The configuration of the chart is one that the program takes."""
    text = yaml.safe_load((CHART / "values.yaml").read_text())["configuration"]
    ran = subprocess.run([program, "check", "/dev/stdin"], input=text, text=True, capture_output=True)
    if ran.returncode != 0:
        refuse("configuration", ran.stderr)


if __name__ == "__main__":
    lint()
    examine()
    manifests(sys.argv[1])
    if len(sys.argv) > 2:
        configuration(sys.argv[2])
    print("the chart is good")
