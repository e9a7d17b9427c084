# The trainer's image with the packages that the `requirements` of a job's script list (images/build/job.py).

ARG TRAINER
FROM ${TRAINER}
USER root

# The list is mounted: neither it nor an index's address in it stays in the image. torch stays the one
# that is there, whatever a package asks for: PyPI's would come with CUDA, several GB.
# A package without a wheel is built with PyPI's setuptools: Debian's lacks what only builds need.
# buildah takes a step for done that differs in a mount's content alone, so that is in the step, too.
ARG CONTENT
RUN --mount=type=bind,source=.,target=/mnt \
    : "${CONTENT}" \
    && pip list --format=freeze | grep -E '^torch(vision)?==' > /tmp/installed.txt \
    && pip install --no-cache-dir --no-input --progress-bar=off --disable-pip-version-check \
        --root-user-action=ignore --use-pep517 --constraint /tmp/installed.txt --requirement /mnt/requirements.txt \
    && rm /tmp/installed.txt

USER 65532:65532
