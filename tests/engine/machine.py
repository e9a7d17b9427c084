"""A fresh Debian, emulated by qemu: systemd, control groups v2 alone, no network but for ssh.

Set-up runs in its file system before it boots, with this machine's cache: under emulation Go takes
ten times as long to build.
"""

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import testinfra
from rich.console import Console
from testinfra.backend.base import CommandResult

from core import toolchain
from core.paths import cache_dir
from images.build import debian
from scripts.scratch import Scratch
from scripts.setup import apt
from scripts.setup.steps import Steps
from tests.engine.awaiting import await_true

CHECKOUT = "/srv/slipway"
USER = "somebody"
"""A user who is not root, with a copy of the checkout at home."""
_NEEDED = ("qemu-system-x86", "e2fsprogs", "openssh-client")
_PACKAGES = (
    "systemd-sysv", "linux-image-cloud-amd64", "initramfs-tools", "openssh-server", "git", "make",
    "python3-venv", "procps", "ca-certificates",
)  # fmt: skip
_SIZE = "20G"  # sparse
_CERTIFICATES = "etc/ssl/certs/ca-certificates.crt"
_NETWORK = "[Match]\nName=e*\n[Network]\nAddress=10.0.2.15/24\n"  # no gateway: nowhere to go
_PREPARE = f"""set -eux
    systemctl enable ssh systemd-networkd
    echo machine > /etc/hostname
    cd {CHECKOUT}
    make setup test-python
    useradd --create-home --shell /bin/bash {USER}
    cp -r /root/.ssh /home/{USER}/
    cp -r . /home/{USER}/slipway
    own=/home/{USER}/.cache/slipway
    mkdir -p $own
    cp -a /root/.cache/slipway/{{bin,venv-*,training-operator-*,toolchain.json}} $own
    sed -i s,/root/,/home/{USER}/,g $own/toolchain.json
    chown -R {USER}: /home/{USER}
"""
# These belong to this machine's Python, or to builds of images.
_LEFT_OUT = " ".join(
    f"--exclude='./{each}'" for each in ("venv-*", "python-*", "*.lock", "images/storage")
)
_LIMIT_SECONDS = 40 * 60


class Machine:
    """A machine whose disk stays when it loses power; `directory` gets 8 GB."""

    def __init__(self, directory: Path, release: str, root: Path) -> None:
        with Steps(Console(stderr=True)) as steps:
            obstacle = apt.install(_NEEDED, steps)
        assert obstacle is None, obstacle
        self._directory = directory
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = probe.getsockname()[1]
        _shell(f"ssh-keygen -q -t ed25519 -N '' -f {directory}/key")
        (directory / "ssh").write_text(
            f"Host *\nIdentityFile {directory}/key\nStrictHostKeyChecking no\n"
            "UserKnownHostsFile /dev/null\nLogLevel ERROR\nConnectTimeout 10\n"
            "ServerAliveInterval 20\nServerAliveCountMax 15\n"
        )
        self._make_disk(release, root)
        self._qemu: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Switch it on, and wait until it is up."""
        command = [
            "qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", "max", "-machine", "q35",
            "-m", "6144", "-smp", "2", "-display", "none",
            "-serial", f"file:{self._directory}/console",
            # A cut loses only the guest's memory: what the guest has flushed is in this machine's.
            "-drive", f"if=virtio,format=raw,cache=unsafe,file={self._directory}/disk",
            "-nic", f"user,model=virtio,restrict=on,hostfwd=tcp:127.0.0.1:{self._port}-:22",
            "-kernel", f"{self._directory}/vmlinuz", "-initrd", f"{self._directory}/initrd.img",
            "-append", "root=/dev/vda rw console=ttyS0 panic=-1",
        ]  # fmt: skip
        self._qemu = subprocess.Popen(command, start_new_session=True)
        self._await_up()

    def reboot(self) -> None:
        """Restart it as its administrator would."""
        before = self._boot()
        self.run("systemd-run --on-active=1 systemctl reboot")
        self._await_up(before)

    def cut_power(self) -> None:
        """Let it lose what it has not written to its disk yet."""
        if self._qemu is not None:
            self._qemu.kill()
            self._qemu.wait()

    def run(self, command: str, user: str = "root") -> str:
        """Run `command` in the user's checkout, and return its output; fail if it fails."""
        result = self.attempt(command, user)
        text = f"{result.stdout}{result.stderr}"
        assert result.rc == 0, f"`{command}` exited with {result.rc}:\n{text}"
        return text

    @contextmanager
    def started(self, command: str, output: Path) -> Iterator[None]:
        """Start `command`; kill its connection at the end."""
        ssh = ("ssh", "-F", f"{self._directory}/ssh", f"-p{self._port}", "root@127.0.0.1")
        with output.open("wb") as file:
            process = subprocess.Popen([*ssh, f"cd {CHECKOUT} && {command}"], stdout=file)
        try:
            yield
        finally:
            process.kill()
            process.wait()

    def attempt(self, command: str, user: str = "root") -> CommandResult:
        """Run `command` in the user's checkout."""
        host = testinfra.get_host(
            f"ssh://{user}@127.0.0.1:{self._port}", ssh_config=f"{self._directory}/ssh"
        )
        place = CHECKOUT if user == "root" else f"/home/{user}/slipway"
        line = f"cd {place} && {command}"
        result: CommandResult = host.run("timeout %s bash -c %s", str(_LIMIT_SECONDS), line)
        return result

    def _boot(self) -> str:
        with suppress(RuntimeError):  # ssh can't connect
            return str(self.attempt("cat /proc/sys/kernel/random/boot_id").stdout)
        return ""

    def _await_up(self, before: str = "") -> None:
        console = self._directory / "console"
        await_true(
            lambda: self._boot() not in {"", before},
            otherwise=lambda: console.read_text(errors="replace")[-4000:],
        )

    def _make_disk(self, release: str, root: Path) -> None:
        disk, archive = self._directory / "disk", self._directory / "base.tar"
        mmdebstrap, mirrors = toolchain.path("mmdebstrap"), debian.sources(release)
        program, *options = debian.bootstrap(mmdebstrap, archive, mirrors, release)
        packages = f"--include={','.join(_PACKAGES)}"
        subprocess.run([program, packages, *options], check=True)
        _shell(f"truncate --size {_SIZE} {disk} && mkfs.ext4 -q {disk}")
        scratch = Scratch.copy_of(root)
        with _mounted("-o loop", disk, self._directory / "root") as system:
            subprocess.run(["tar", "xf", archive, "-C", system], check=True)
            archive.unlink()
            for name in (_CERTIFICATES, "etc/resolv.conf"):
                shutil.copy(Path("/", name), system / name)
            (system / "etc/systemd/network/only.network").write_text(_NETWORK)
            (system / "root/.ssh").mkdir(mode=0o700, exist_ok=True)
            shutil.copy(self._directory / "key.pub", system / "root/.ssh/authorized_keys")
            (cache := system / "root/.cache/slipway").mkdir(parents=True)
            # Times of files to the nanosecond, by which set-up knows its tools.
            pack = f"tar --create --format=posix --directory {cache_dir()} {_LEFT_OUT} ."
            _shell(f"{pack} | tar --extract --directory {cache}")
            shutil.copytree(scratch.checkout, system / CHECKOUT[1:], symlinks=True)
            scratch.remove()
            with ExitStack() as mounts:
                for name in ("proc", "dev"):
                    mounts.enter_context(_mounted("--bind", Path("/", name), system / name))
                environment = os.environ | {
                    "HOME": "/root",
                    "PATH": os.defpath + ":/usr/sbin:/sbin",
                }
                command = ["chroot", str(system), "bash", "-c", _PREPARE]
                subprocess.run(command, check=True, env=environment)
            for name in ("vmlinuz", "initrd.img"):
                shutil.copy(system / name, self._directory / name)


@contextmanager
def _mounted(option: str, source: Path, place: Path) -> Iterator[Path]:
    place.mkdir(exist_ok=True)
    _shell(f"mount {option} {source} {place}")
    try:
        yield place
    finally:
        _shell(f"umount {place}")


def _shell(line: str) -> None:
    subprocess.run(["bash", "-o", "pipefail", "-c", line], check=True)
