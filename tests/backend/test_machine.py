"""Cores and memory of control groups, on made-up trees of the files in which Linux tells them."""

import os
from pathlib import Path

import pytest

from lcml.backend.machine import available_memory, cores

MB = 2**20


@pytest.fixture(autouse=True)
def eight_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))


def tree(root: Path, group: str, files: dict[str, str], free_mb: int = 1000) -> Path:
    """A machine with so much free memory, the process's lines in /proc/self/cgroup, and files below /sys/fs/cgroup."""
    content = {"proc/self/cgroup": group, "proc/meminfo": f"MemTotal: 9 kB\nMemAvailable: {free_mb * 1024} kB\n"}
    content |= {f"sys/fs/cgroup/{name}": text for name, text in files.items()}
    for name, text in content.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_without_groups_the_machine_counts(tmp_path: Path) -> None:
    assert (cores(tmp_path / "none"), available_memory(tmp_path / "none")) == (8, 4 << 30)  # no Linux
    root = tree(tmp_path, "0::/\n", {"cgroup.procs": "1\n"})
    assert (cores(root), available_memory(root)) == (8, 1000 * MB)


@pytest.mark.parametrize(("text", "expected"), [("max 100000", 8), ("150000 100000", 2), ("5000 100000", 1)])
def test_quota_of_version_2(tmp_path: Path, text: str, expected: int) -> None:
    assert cores(tree(tmp_path, "0::/pod\n", {"pod/cpu.max": text})) == expected


def test_the_tightest_of_nested_groups_counts(tmp_path: Path) -> None:
    files = {
        "kubepods/cpu.max": "300000 100000",
        "kubepods/pod/cpu.max": "max 100000",
        "kubepods/memory.max": str(500 * MB),
        "kubepods/memory.current": str(420 * MB),
        "kubepods/memory.stat": f"active_file 7\ninactive_file {20 * MB}\n",
        "kubepods/pod/memory.max": str(300 * MB),
        "kubepods/pod/memory.current": str(100 * MB),
    }
    root = tree(tmp_path, "0::/kubepods/pod\n", files)
    assert cores(root) == 3
    assert available_memory(root) == 100 * MB  # of the group above: 500 - 420, and 20 of files given up first


def test_a_container_sees_its_group_where_the_hierarchy_is_mounted(tmp_path: Path) -> None:
    files = {"cpu.max": "200000 100000", "memory.max": str(64 * MB), "memory.current": str(16 * MB)}
    for path in ("/system.slice/docker-1.scope", "/../other"):
        root = tree(tmp_path, f"0::{path}\n", files)
        assert (cores(root), available_memory(root)) == (2, 48 * MB)


def test_version_1(tmp_path: Path) -> None:
    files = {
        "cpu/box/cpu.cfs_quota_us": "400000\n",
        "cpu/box/cpu.cfs_period_us": "100000\n",
        "cpu/cpu.cfs_quota_us": "-1\n",
        "cpu/cpu.cfs_period_us": "100000\n",
        "memory/box/memory.limit_in_bytes": str(200 * MB),
        "memory/box/memory.usage_in_bytes": str(180 * MB),
        "memory/box/memory.stat": f"inactive_file 1\ntotal_inactive_file {30 * MB}\n",
        "memory/memory.limit_in_bytes": str(2**63 - 4096),
        "memory/memory.usage_in_bytes": str(900 * MB),
    }
    root = tree(tmp_path, "5:memory:/box\n3:cpu,cpuacct:/box\n1:name=systemd:/box\n0::/box\n", files)
    assert (cores(root), available_memory(root)) == (4, 50 * MB)


def test_a_group_over_its_limit_and_few_cores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3})
    files = {"cpu.max": "600000 100000", "memory.max": str(MB), "memory.current": str(2 * MB)}
    root = tree(tmp_path, "0::/\n", files)
    assert (cores(root), available_memory(root)) == (1, 0)
