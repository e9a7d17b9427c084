"""A release is used only when it is what its publisher says, now and ever after."""

import hashlib
import io
import ssl
import tarfile
import threading
from collections.abc import Iterator

import pytest
from rich.console import Console

from clusters.embedded import pki
from clusters.embedded.layout import Layout
from clusters.kinds import CLUSTERS
from core.paths import cache_dir
from core.toolchain import tool
from scripts.setup import record, releases
from scripts.setup.record import Entries
from scripts.setup.steps import Steps
from scripts.setup.tools import MODULES, Release, Tool, tools_of
from tests.unit.fake_api import FakeApi, served

CONTENT = b"#!/bin/sh\necho 1.2.3\n"
CHECKSUM = hashlib.sha256(CONTENT).hexdigest()
KUBERNETES, PULUMI, COREDNS = (MODULES[name] for name in ("kubernetes", "pulumi", "coredns"))
KUBELET = Tool("kubelet", module=KUBERNETES)
HTML = b"<!doctype html><html><body>Log in to the network</body></html>"


def publish(site: FakeApi, content: bytes = CONTENT, checksum: str = CHECKSUM) -> None:
    """Let a site have a release of kubelet, and what its publisher says of it."""
    site.says("GET", "/kubelet", content)
    site.says("GET", "/kubelet.sha256", checksum)


def asked(site: FakeApi) -> list[str]:
    """Return the paths that a site was asked for since the last time."""
    paths = [path for _, path, _ in site.asked]
    site.asked.clear()
    return paths


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    """An authority that nobody else knows, and its certificate for 127.0.0.1."""
    layout = Layout(tmp_path_factory.mktemp("authority"))
    pki.ensure(layout)
    return layout


@pytest.fixture
def site(authority: Layout, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeApi]:
    """A release site over HTTPS."""
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(authority.certificate("etcd-ca")))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(releases, "_ANSWER_SECONDS", 60.0)  # so that a busy machine has time
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.certificate("etcd"), authority.key("etcd"))
    with served(FakeApi(), context) as site:
        release = Release(f"https://127.0.0.1:{site.port}/{{tool}}")
        monkeypatch.setitem(vars(KUBERNETES), "release", release)
        yield site


def fetched(*tools: Tool) -> tuple[Entries, str]:
    """What was downloaded, and what was printed."""
    console = Console(file=io.StringIO(), soft_wrap=True, record=True)
    return releases.fetch(tools or (KUBELET,), Steps(console)), console.export_text()


def refusal() -> str:
    """Why the release was not used; nothing of it is left."""
    found, printed = fetched()
    assert found == {}
    assert not (cache_dir() / "bin" / "kubelet").exists()
    (line,) = [line for line in printed.splitlines() if line.startswith("No release")]
    assert line.startswith("No release from 127.0.0.1: ")
    assert line.endswith(" Building from source instead.")
    return line


@pytest.mark.parametrize("form", ["{0}  kubelet", "{1}  kubectl\n{0} *kubelet\n", "{0}\n"])
def test_a_release_with_its_publishers_checksum_is_used_and_recorded(
    form: str, site: FakeApi
) -> None:
    publish(site, checksum=form.format(CHECKSUM, "0" * 64))
    found, printed = fetched()
    record.save(found)
    used = tool("kubelet")
    assert used.path.read_bytes() == CONTENT
    assert used.path.stat().st_mode & 0o111
    assert used.version == KUBERNETES.version
    assert record.load()["kubelet"].origin == "release of 127.0.0.1"
    assert record.checksums() == {f"https://127.0.0.1:{site.port}/kubelet": CHECKSUM}
    assert f"Downloading kubelet {KUBERNETES.version} from 127.0.0.1 (about" in printed
    assert fetched()[0].keys() == found.keys()


@pytest.mark.parametrize(
    ("content", "checksum", "reason"),
    [
        (b"something else", CHECKSUM, f"publisher lists {CHECKSUM}"),
        (HTML, HTML.decode(), "kubelet.sha256 does not contain a SHA-256 checksum for kubelet"),
        (CONTENT, f"{CHECKSUM}  kubectl", "does not contain a SHA-256 checksum for kubelet"),
    ],
    ids=["other", "page", "of-another"],
)
def test_a_release_that_is_not_what_its_publisher_lists_is_refused(
    content: bytes, checksum: str, reason: str, site: FakeApi
) -> None:
    publish(site, content, checksum)
    assert reason in refusal()


def test_a_truncated_or_missing_release_is_refused(site: FakeApi) -> None:
    publish(site)
    site.cut = {"/kubelet"}
    assert "/kubelet: " in refusal()
    for missing in ("/kubelet", "/kubelet.sha256"):
        del site.answers["GET", missing]
        url = f"https://127.0.0.1:{site.port}{missing}"
        assert f"404 Client Error: Not Found for url: {url}" in refusal()


def test_a_checksum_that_changes_is_refused_ever_after(site: FakeApi) -> None:
    publish(site)
    record.save(fetched()[0])
    (cache_dir() / "bin" / "kubelet").unlink()
    other = hashlib.sha256(b"other").hexdigest()
    publish(site, b"other", other)
    for _ in range(2):
        assert f"was {CHECKSUM} when it was first used, but is now {other}" in refusal()
    assert record.checksums().popitem()[1] == CHECKSUM


def test_a_site_that_hangs_is_given_up_and_asked_no_more(
    site: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(site)
    goes_on = threading.Event()
    site.answers["GET", "/kubelet"] = lambda _: (200, str(goes_on.wait(30)))
    monkeypatch.setattr("images.datasets.dataset.READ_LIMIT", 0.5)
    assert "/kubelet: " in refusal()
    site.answers["GET", "/kubelet.sha256"] = site.answers["GET", "/kubelet"]
    monkeypatch.setattr(releases, "_ANSWER_SECONDS", 0.5)
    asked(site)
    assert refusal() == "No release from 127.0.0.1: no response. Building from source instead."
    goes_on.set()
    assert asked(site) == ["/kubelet.sha256"]


def test_another_certificate_is_refused(site: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(site)
    monkeypatch.delenv("REQUESTS_CA_BUNDLE")
    monkeypatch.delenv("CURL_CA_BUNDLE", raising=False)
    assert "CERTIFICATE_VERIFY_FAILED" in refusal()
    assert asked(site) == []


def test_an_archive_is_fetched_once_for_all_its_tools_and_refused_where_one_is_missing(
    site: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"https://127.0.0.1:{site.port}/pulumi.tar.gz"
    monkeypatch.setitem(vars(PULUMI), "release", Release(url, member="pulumi/{tool}"))
    names = ("pulumi", "pulumi-language-python")
    parts = (Tool(names[0], module=PULUMI), Tool(names[1], released_with=PULUMI))

    def serve(*members: str) -> None:
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
            for each in members:
                archive.addfile(tarfile.TarInfo(f"pulumi/{each}"))
        site.says("GET", "/pulumi.tar.gz", buffer.getvalue())
        checksum = hashlib.sha256(buffer.getvalue()).hexdigest()
        site.says("GET", "/pulumi.tar.gz.sha256", checksum)

    serve("pulumi")
    found, printed = fetched(*parts)
    assert found == {}
    assert record.checksums() == {}
    assert "'pulumi/pulumi-language-python' not found" in printed
    asked(site)
    serve(*names, "x")
    found, _ = fetched(*parts)
    assert {name: each.version for name, each in found.items()} == dict.fromkeys(
        names, PULUMI.version
    )
    assert len(asked(site)) == 2


def test_where_each_release_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr("sys.platform", "linux")
    files = releases.files_of(tools_of(CLUSTERS["embedded"]))
    assert all(tool.module is not None for tools in files.values() for tool in tools)
    found = {each.address: each.checksums for each in files}
    kubelet = f"https://dl.k8s.io/release/{KUBERNETES.version}/bin/linux/amd64/kubelet"
    site, pulumi = "https://get.pulumi.com/releases/sdk", PULUMI.version
    place, number = "https://github.com/coredns/coredns/releases/download", COREDNS.version[1:]
    dns = f"{place}/v{number}/coredns_{number}_linux_amd64.tgz"
    checksums = {
        kubelet: f"{kubelet}.sha256",
        f"{site}/pulumi-{pulumi}-linux-x64.tar.gz": f"{site}/pulumi-{pulumi[1:]}-checksums.txt",
        dns: f"{dns}.sha256",
    }
    assert found.items() >= checksums.items()
    assert sum("dl.k8s.io" in address for address in found) == 6
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    assert releases.files_of(tools_of(None)) == {}
