"""The images of a node's containerd, as `ctr` shows them, in a recorded program's state."""

from __future__ import annotations

from tests.doubles.recorded import refuse


def ctr(images: dict[str, str], arguments: list[str], sent: bytes = b"") -> str:
    """Do what `ctr --namespace=k8s.io images …` does and return what it prints.

    https://github.com/containerd/containerd/tree/main/cmd/ctr/commands/images
    """
    if arguments[:2] != ["--namespace=k8s.io", "images"]:
        refuse(f"ctr: {arguments} would not be about the kubelet's images")
    command, rest = arguments[2], arguments[3:]
    words = [each for each in rest if not each.startswith("-")]
    if command == "import":
        images.update(tagged(sent))
        return ""
    if command == "list":
        wanted = words[0].removeprefix("name==")
        rows = [f"{name} application/x {images[name]} 1 MiB" for name in images if name == wanted]
        return "\n".join(["REF TYPE DIGEST SIZE", *rows]) + "\n"
    if command == "tag":
        source, target = words
        if source not in images:
            refuse(f"ctr: image {source!r}: not found")
        images[target] = images[source]
        return f"{target}\n"
    if command == "remove":
        images.pop(words[0], None)
        return f"{words[0]}\n"
    return refuse(f"ctr: No help topic for '{command}'", 3)


def tagged(archive: bytes) -> dict[str, str]:
    """Return the names in an archive of docker's, each with a digest of its content."""
    # Here, since they take long and most calls need none of them.
    import hashlib  # noqa: PLC0415
    import io  # noqa: PLC0415
    import json  # noqa: PLC0415
    import tarfile  # noqa: PLC0415

    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        member = tar.extractfile("manifest.json")
        if member is None:
            refuse("ctr: unrecognized image format")
        listed = json.load(member)
    digest = f"sha256:{hashlib.sha256(archive).hexdigest()}"
    return {name: digest for each in listed for name in each["RepoTags"]}
