# The trainer's image with the packages that the `requirements` of a job's script list (images/build/job.py).

ARG TRAINER
FROM ${TRAINER}
USER root

# The list is mounted, so that neither the list nor an index URL in it stays in the image. torch is kept at the
# installed version, whatever a package requires: PyPI's would bring CUDA along, which is several GB.
# A package without a wheel is built with PyPI's setuptools, since Debian's lacks parts that only builds need.
# buildah would reuse a cached step if only a mount's content changed, so the step contains a hash of that content.
ARG CONTENT
RUN --mount=type=bind,source=.,target=/mnt \
    : "${CONTENT}" \
    && pip list --format=freeze | grep -E '^torch(vision)?==' > /tmp/installed.txt \
    && pip install --no-cache-dir --no-input --progress-bar=off --disable-pip-version-check \
        --root-user-action=ignore --use-pep517 --constraint /tmp/installed.txt --requirement /mnt/requirements.txt \
    && rm /tmp/installed.txt

USER 65532:65532
