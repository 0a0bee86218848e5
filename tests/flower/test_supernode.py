"""Flower's SuperNode as a process that ends with it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from headwater.flower import supernode

PROGRAM = """
import sys, threading, time
from headwater.flower import supernode

def program():
    threading.Thread(target=time.sleep, args=(600,)).start()  # as Flower's own server does
    {ends}

supernode.main(program)
"""


def python(*words):
    return subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.parametrize(
    ("ends", "code", "said"),
    [
        ('raise RuntimeError("500 Internal Server Error")', 1, "500 Internal Server Error"),
        ("sys.exit(305)", 305 & 0xFF, ""),
        ("pass", 0, ""),
    ],
)
def test_a_thread_that_stays_does_not_keep_the_process(ends, code, said):
    done = python("-c", PROGRAM.format(ends=ends))
    assert done.returncode == code
    assert said in done.stderr


def test_it_takes_flowers_options_and_no_pytorch():
    code = "import sys; from headwater.flower.supernode import flowers_own; "
    code += "flowers_own('flower-supernode'); print('torch' in sys.modules)"
    assert python("-c", code).stdout.strip() == "False"
    done = python("-m", supernode.__name__, "--help")
    assert done.returncode == 0
    assert "--superlink" in done.stdout
