"""The program of a stack of training jobs alone, on a cluster that is there."""

import json
import os
import signal

import pulumi
import pulumi_kubernetes

from clusters.cluster import Cluster
from images.resource import TrainerImages
from infra.runs import RunContext, not_run, train
from tests.runs.declared import read_jobs


def program() -> None:
    """Declare the jobs that the environment names: what the Pulumi CLI runs."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # as the real program does
    section = json.loads(os.environ["TEST_JOBS"])
    jobs, scripts = read_jobs(section)
    runs = train(jobs, scripts, _context())
    for name, run in runs.items():
        pulumi.export(name, run.result)
    pulumi.export("notRun", not_run(runs))


def _context() -> RunContext:
    """Return the cluster that is there, with the trainer's image that its node has."""
    kubeconfig = pulumi.Output.secret(os.environ["TEST_KUBECONFIG"])
    provider = pulumi_kubernetes.Provider(
        "there", kubeconfig=kubeconfig, cluster_identifier="there"
    )
    cluster = Cluster("there", provider, kubeconfig, image_target={}, images={})
    images = TrainerImages({"kind": "there", "trainer": os.environ["TEST_TRAINER"]})
    return RunContext(cluster, needs=[], images=images, capacity=None)
