"""Programs that end in all the ways a program can end."""

import ctypes
import os
import subprocess
import sys
import threading
import time

import torch


def returns(device):
    print("a line on standard output")
    return {
        "sum": (torch.ones(2, 2, device=device) @ torch.ones(2, 2, device=device)).sum(),
        "n": 3,
    }


def raises(device):
    raise ValueError("not today")


def leaves():
    sys.exit(7)


def vanishes():
    print("gone")
    sys.stdout.flush()
    os._exit(3)


def hangs():
    while True:
        time.sleep(1)


def crashes():
    ctypes.string_at(0)


def grows():
    return torch.ones(1 << 35)


def floods():
    for _ in range(200):
        sys.stdout.write("x" * 100_000)
    return 1


def leaves_others_behind():
    """Neither a thread nor a process of the program's may keep the answer waiting."""
    threading.Thread(target=hangs).start()
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], close_fds=False)
    return 1


def draws():
    return torch.rand(3)


def branch(x):
    if x:
        return 1
    return 2


def environment():
    return os.environ.get("CUDA_VISIBLE_DEVICES")
