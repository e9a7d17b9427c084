"""This machine's pip, for images: packages that Debian lacks, and settings for a build's own pip.

On a network that inspects TLS or has its own index, a build's `pip install` needs this machine's
index and certificates. The patterns for pip's error messages are in pip_reasons.yaml.
"""

import ast
import hashlib
import os
import re
import shutil
import sys
from collections.abc import Iterable, Mapping
from configparser import RawConfigParser
from pathlib import Path
from platform import machine
from textwrap import dedent

from core import files
from core.manifests import read
from core.paths import cache_dir
from images.build.engines import answer
from images.build.runner import Runner

LIMIT = 1200.0
_MACHINE = machine().replace("arm64", "aarch64")
_PLATFORMS = ("1", "2014", *(f"_2_{minor}" for minor in range(17, 42)))
"""Accepted manylinux wheel tags: 2.41 is the glibc version in releases.yaml's oldest suite."""
_KEPT = ("index-url", "extra-index-url", "trusted-host", "default-timeout", "timeout")
_CERTIFICATES = "/run/slipway-certificates.crt"
_SETTINGS = "/etc/pip.conf"
"""The file that pip reads first, on any Linux."""
_REASONS = Path(__file__).with_name("pip_reasons.yaml")
_OF_DOCKER = re.compile(r"^#\d+ [\d.]+ ", re.MULTILINE)


def install(lock: Path, target: Path, runner: Runner, python: str) -> None:
    """Install the packages in `lock` into `target`, for a Python version such as 3.14.

    `lock` pins versions and hashes of all packages, so pip resolves nothing. `target` must not
    exist yet, and must be on the same file system as the cache. Raises `BuildFailed`.
    """
    version = hashlib.sha256(lock.read_bytes()).hexdigest()[:12]
    kept = cache_dir() / "packages" / f"{lock.stem}-{python}" / version
    if not kept.is_dir():
        unfinished = kept.with_suffix(".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        runner.run("fetching Python packages", _command(lock, unfinished, python), LIMIT)
        os.sync()  # after a power loss, its files would otherwise be empty
        unfinished.rename(kept)
        for other in kept.parent.iterdir():
            if other != kept:
                files.remove(other, unfinished)
    # As hard links, since the CUDA packages are several GB.
    shutil.copytree(kept, target, copy_function=os.link)


def _command(lock: Path, target: Path, python: str) -> tuple[str, ...]:
    # For the image's Python, not this machine's.
    platform = (
        f"--python-version={python}",
        "--implementation=cp",
        *(f"--abi={abi}" for abi in (f"cp{python.replace('.', '')}", "abi3", "none")),
        *(f"--platform=manylinux{each}_{_MACHINE}" for each in _PLATFORMS),
    )
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input")
    exact = ("--no-deps", "--require-hashes", "--only-binary=:all:")
    place = ("--target", str(target), "--no-compile", "--requirement", str(lock))
    return (*pip, "install", "--no-user", "--root-user-action=ignore", *exact, *platform, *place)


def mounts(work: Path) -> Mapping[str, Path]:
    """Return the files with pip's settings and certificates, keyed by path in the build container.

    The settings are written to a file in `work`. The map is empty if this machine has no settings
    that builds need.
    """
    listed = answer(sys.executable, "-m", "pip", "config", "list") or ""
    configured: dict[str, str] = {}
    # Environment variables come last, as they take precedence.
    for line in sorted(listed.splitlines(), key=lambda line: line.startswith(":env:")):
        key, _, value = line.partition("=")
        configured[key.rpartition(".")[2]] = str(ast.literal_eval(value))
    variables = (os.environ.get(name) for name in ("REQUESTS_CA_BUNDLE", "SSL_CERT_FILE"))
    mine = (Path(each) for each in (configured.get("cert"), *variables) if each)
    bundle = next((each for each in mine if each.is_file()), None)
    kept = {name: configured[name] for name in _KEPT if name in configured}
    mounted = {_SETTINGS: work / "pip.conf"}
    if bundle is not None:
        kept["cert"], mounted[_CERTIFICATES] = _CERTIFICATES, bundle.resolve()
    if not kept:
        return {}
    parser = RawConfigParser()
    parser["global"] = kept
    mounted[_SETTINGS].touch(mode=0o600)  # an index URL may contain a password
    with mounted[_SETTINGS].open("w") as file:
        parser.write(file)
    return mounted


def reason(printed: str) -> str | None:
    """Return why pip failed, on one line, according to its output, or None if unknown."""
    # The reason is at the end of the log, after a compiler's long output.
    text, patterns = _OF_DOCKER.sub("", printed[-60_000:]), read(_REASONS)
    message = _kind(text, patterns["kinds"]) or _of_build(text, patterns["ofBuilds"])
    message = message or _kind(text, patterns["others"]) or ""
    for words, others in patterns["words"].items():
        message = message.replace(words, others)
    return message[:400] or None


def _kind(text: str, kinds: Iterable[Mapping[str, str]]) -> str | None:
    for kind in kinds:
        if (match := re.search(kind["prints"], text, re.MULTILINE)) is not None:
            parts = match.groupdict("").items()
            flat = {name: re.sub(r"\s*\n\s*", "; ", part.strip()) for name, part in parts}
            return kind["means"].format(**flat)
    return None


def _of_build(text: str, prints: Mapping[str, str]) -> str | None:
    """Return why a package without a wheel can't be built, or None for other failures."""
    before, _, rest = text.rpartition("lines of output]\n")
    box, ended, after = rest.partition("[end of output]")
    lines = [line.strip() for line in box.splitlines() if re.search(r"\w", line)]
    if not (ended and lines):
        return None
    missing = (line for line in lines if re.search(prints["missing"], line))
    errors = (line for line in reversed(lines) if re.match(prints["error"], line))
    cause = reason(dedent(box)) or next(missing, next(errors, lines[0]))
    collected = re.findall(prints["collected"], before, re.MULTILINE)
    package = ["a package", *collected, *re.findall(prints["notBuilt"], after)][-1]
    return f"{package} has no wheel for the image's Python, and its source can't be built: {cause}"
