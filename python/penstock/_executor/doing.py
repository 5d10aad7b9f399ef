"""What this executor works on, where the worker finds it when the process is gone: a page that both see, in the file that takes its stacks.

It costs a store a row. In a program of the user's own nobody looks at it.
"""

from __future__ import annotations

import mmap

PAGE = 4096  # kDoingPage of executor_process.cc: seq, length of the text, the text
NO_ROW = (1 << 64) - 1


class _Page:
    def __init__(self) -> None:
        self.use(memoryview(bytearray(PAGE)))

    def use(self, memory: memoryview) -> None:
        self.numbers = memory[:16].cast("Q")
        self.text = memory[16:]


_page = _Page()


def share(descriptor: int) -> None:
    _page.use(memoryview(mmap.mmap(descriptor, PAGE)))


def begin(what: str, seq: int = NO_ROW) -> memoryview:
    """`what` runs from now on, at row `seq`. Whoever goes on to another writes its seq into what is returned, at [0]."""
    numbers, text = _page.numbers, what.encode(errors="replace")[: PAGE - 16]
    numbers[1] = 0
    _page.text[: len(text)] = text
    numbers[0] = seq
    numbers[1] = len(text)
    return numbers


def end() -> None:
    """Nobody's code runs."""
    _page.numbers[1] = 0
