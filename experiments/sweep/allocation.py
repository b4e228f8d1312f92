"""Freed memory stays with the process.

A trial allocates and frees tables of a megabyte or more by the dozen. glibc hands such blocks back
to the kernel at once and then pays for every page of the next one: on 809 queries some 5,000 page
faults a trial, a third of its time. See mallopt(3).
"""

import ctypes
import sys
from functools import cache

__all__ = ["keep_freed_memory"]

# From glibc's malloc.h; the largest threshold it admits is 32 MiB.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_BLOCK, _KEPT = 32 * 2**20, 512 * 2**20


@cache
def keep_freed_memory() -> bool:
    """Tell glibc to keep up to 512 MiB of what is freed; return whether it is there to listen.

    Changes no result. Once a process; elsewhere than on Linux with glibc nothing is done.
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return bool(mallopt(_MMAP_THRESHOLD, _BLOCK)) and bool(mallopt(_TRIM_THRESHOLD, _KEPT))
