"""CIFAR-10, and Fashion-MNIST's pictures in its format."""

import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from images.datasets import cifar10
from images.datasets.dataset import NotAvailable
from tests.unit.images.objects import Listener


def test_without_the_package_it_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotAvailable, match="apt-get"):
        cifar10.from_debian(tmp_path, Listener())


def test_only_the_published_archive_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    real = cifar10.CIFAR10
    assert not real.is_at_hand()
    cifar10.archive().parent.mkdir(parents=True)
    with tarfile.open(cifar10.archive(), "w:gz") as tar:
        for name in cifar10.CIFAR10.files:
            tar.addfile(tarfile.TarInfo(name))
    assert real.is_at_hand()
    by_hand = replace(real, sources=real.sources[:1])
    with pytest.raises(NotAvailable, match=r"the md5 of .*data_batch_1 is d41d8.* instead of c99"):
        by_hand.ensure(Listener())
    cifar10.archive().write_text("<html>")
    with pytest.raises(NotAvailable, match="can't be unpacked"):
        by_hand.ensure(Listener())
    assert not real.directory.exists()
