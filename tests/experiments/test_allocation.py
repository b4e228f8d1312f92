"""A sweep's process keeps what it frees."""

import platform
import resource

import numpy as np
import pytest

from experiments.sweep.allocation import keep_freed_memory


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="mallopt is glibc's")
def test_freed_blocks_cost_no_new_pages_when_memory_is_kept() -> None:
    assert keep_freed_memory()

    def faults_of_a_block() -> int:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        np.empty(2**20).fill(1.0)  # 8 MiB, 2,048 pages
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

    assert min(faults_of_a_block() for _ in range(5)) < 200
