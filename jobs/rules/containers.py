"""Rules for containers: their images, restarts and outputs."""

from core.problem import quote
from images.build.releases import chosen, usable
from jobs.adapt import wants_gpus
from jobs.model.inputs import output_directory
from jobs.model.job import TrainingJob
from jobs.rules.rule import Finding, Findings, Surroundings, rule


@rule("https://kubernetes.io/docs/concepts/containers/images/#image-names")
def _unpinned_image(job: TrainingJob, _: Surroundings) -> Findings:
    if job.image is None or "@" in job.image:
        return
    # A port comes before a slash, and a tag after the last slash.
    _name, _colon, tag = job.image.rpartition("/")[2].partition(":")
    if tag in {"", "latest"}:
        what = "has no tag, which means `latest`" if tag == "" else "has the tag `latest`"
        yield Finding(
            ("image",),
            f"{quote(job.image)} {what}: each push may change that image, so a run can't be "
            "reproduced",
            "specify a version or a digest (@sha256:…)",
        )


@rule("docs/azure-local.md#without-the-internet")
def _image_out_of_reach(job: TrainingJob, around: Surroundings) -> Findings:
    reach = around.reach
    if job.image is not None and reach is not None and not reach.has(job.image):
        yield Finding(
            ("image",),
            f"{quote(job.image)} is not in a registry that the cluster can reach",
            f"push it to {reach.host}, or map it to its location there, by digest, in "
            "slipway:cluster.registry.mirrors",
        )


@rule("https://github.com/kubeflow/trainer/issues/2045")
def _exit_code_with_backoff(job: TrainingJob, _: Surroundings) -> Findings:
    if job.restart_policy == "ExitCode" and job.backoff_limit is not None:
        yield Finding(
            ("backoffLimit",),
            f"{job.backoff_limit} would have no effect: the operator counts container restarts, "
            'but with the restart policy "ExitCode" it creates new pods instead',
            'remove `backoffLimit`, so that `timeout` ends the run, or use "OnFailure"',
        )


@rule("docs/install.md#versions-of-torch")
def _torch_that_cannot_run(job: TrainingJob, around: Surroundings) -> Findings:
    if job.image is not None or not around.has_trainer:
        if job.torch is not None:
            remedy = "remove this key, or base the Dockerfile on the trainer image"
            yield Finding(("torch",), "the job's own image determines its version of torch", remedy)
        return
    if around.gpus_per_node is None:
        return  # unknown, because the cluster's settings are invalid
    gpus = None if around.pool is None or not wants_gpus(job) else around.pool.cards
    release = chosen(job.torch, gpus=gpus is not None, stack=around.torch)
    if (why := release.unfit(gpus)) is not None:
        others = " or ".join(quote(each.torch) for each in usable(gpus))
        remedy = f"use {others}" if others else "give the job an `image` that works"
        of_stack = release.torch == around.torch
        origin = "" if job.torch else ", set in slipway:torch," if of_stack else ", the default,"
        yield Finding(("torch",), f"torch {release.torch}{origin} {why}", remedy)


@rule("docs/files.md#outputs")
def _outputs_not_kept(job: TrainingJob, _: Surroundings) -> Findings:
    if (directory := output_directory(job)) is None:
        return
    lasting = [
        volume.mount_path
        for volume in job.volumes.values()
        if volume.empty_dir is None and not volume.read_only
    ]
    if not any(directory.is_relative_to(place) for place in lasting):
        have = f"such volumes: {', '.join(lasting)}" if lasting else "the job has none"
        yield Finding(
            ("outputs",),
            f"{quote(job.outputs)} is not in a writable volume that outlives the pod ({have})",
            "mount one there, or use a store such as abfs://container/folder or s3://bucket/folder",
        )
