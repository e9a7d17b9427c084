"""What images are called: `<host>/<path>/<name>:<tag>` or `…@<digest>`. Pure."""

OURS = frozenset({"localhost", "slipway.local"})
"""What stands where a registry's host would, in names of images that are built here."""


def repository(name: str) -> str:
    """Return `name` without its tag or its digest; a host's port is neither."""
    plain = name.partition("@")[0]
    head, slash, last = plain.rpartition("/")
    return f"{head}{slash}{last.partition(':')[0]}"


def tag(name: str) -> str:
    """Return what follows the repository: the digest, else the tag, else `latest`."""
    plain, _, digest = name.partition("@")
    return digest or plain.rpartition("/")[2].partition(":")[2] or "latest"


def by_digest(name: str, digest: str) -> str:
    """Return the name without its tag, which a node's runtime would drop anyway, by `digest`."""
    return f"{repository(name)}@{digest}"


def listed(listing: str, name: str) -> str | None:
    """Return the digest that containerd's `ctr images list` tells for a name; None without."""
    # REF TYPE DIGEST SIZE …
    for line in listing.splitlines():
        if line.startswith(f"{name} "):
            return line.split()[2]
    return None


def within(server: str, reference: str) -> str:
    """Return what an image that is built here is called in a registry.

    Args:
        server: The registry's host, with a path in it where it has one.
        reference: Such as `localhost/slipway-trainer:0123456789ab`.
    """
    host, _, rest = reference.partition("/")
    return f"{server}/{rest if host in OURS else reference}"
