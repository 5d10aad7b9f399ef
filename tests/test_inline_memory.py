"""An inline reader in a program that has no more memory."""

import subprocess
import sys

_PROGRAM = """
import os, resource
import penstock

elements = iter(penstock.Dataset.from_range(1 << 40).batch(1 << 31))
with open("/proc/self/status") as status:
    used = next(int(line.split()[1]) for line in status if line.startswith("VmData")) << 10
resource.setrlimit(resource.RLIMIT_DATA, (used + (256 << 20),) * 2)
try:
    next(elements)
except penstock.TooLarge as error:
    print(error, flush=True)
os._exit(0)
"""


def test_a_batch_that_no_memory_is_left_for_is_told_as_too_large() -> None:
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == "more memory is wanted than there is; make rows or batches smaller, or give the process more memory\n", done.stderr
