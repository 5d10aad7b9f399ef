"""What limits the lines of the report that are below their aim: profiles (perf, callgrind), by benchmark and a part of the case's name."""

from __future__ import annotations

from typing import Any

_INFLATE = (
    "By samples, two thirds of the time for a row are the decoder of symbols, which two files share in one loop: 2.15 us of 2.75, against 2.92 for a "
    "file alone; three or four files in a loop take longer again (2.3, 2.5), for registers run out. The codes of blocks are 6 %, parsing 5 %, "
    "copies 3 %, crc32c 2 %, gzip's own CRC 1 %."
)
_MEMORY = (
    "The rest is memory: where files cannot be cut, a lane has whole ones, and rows leave its shuffle buffer of 24 MB in an order that no cache "
    "foresees, 1 us a row. Prefetching by the next draws, and huge pages, changed nothing."
)

_NOTHING = "Where the middle half reaches below nothing, so few pairs do not tell the figure from nothing."

LIMITS = {
    "records": {
        "gzip: inflate": _INFLATE,
        "gzip: shuffled": f"{_INFLATE} {_MEMORY}",
        "plain": "By samples: parsing 19 %, the kernel's copy of the file and its looking up of pages 18 %, copying values into the batch 15 %, "
        "crc32c 7 %; nothing else is above 2 %.",
    },
    "transport": {
        "16 MiB, numpy": "By samples of a whole run, the workers' one copy of each row, past the caches, is ten times as much as anything "
        "else that they or the loop do (the rest is of the start): memory is what is left. "
        "One core that copies an element to one place within its cache does a third more.",
        "64 KiB, C++, over a socket, made": "By samples: the worker's I/O thread 40 %, the client's 31 %, the threads that make blocks 21 %, the "
        "loop 8 %. The kernel's copies into the socket and out of it take four times what they take the bare socket: its one buffer of 64 KiB stays "
        "in the cache of the core that fills and sends it, blocks lie in several of 1 MiB, and are made on another thread than the one that sends.",
        "C++, over a socket": "By samples at 1 MiB: the worker's I/O thread 44 %, the client's 39 %, nearly all of it in the kernel as with the bare "
        "socket; the threads that cut blocks 10 %, of which the digests (crc32c) are half; the loop 7 %. All of them share the cores that the bare "
        "socket has for two threads.",
    },
    "eager": {
        "1 MiB": "By threads: of the CPU time for an element the executor's thread takes 46 % (of that the one copy into shared memory 30 %, "
        "TensorFlow's own library 25 %, the rest Python and two calls a block), the loop's own thread 17 %, worker threads 15 %, the client's I/O "
        "thread 8 %, the worker's 5 %, the dispatcher 4 %.",
    },
    "overhead": {
        "guarantees": _NOTHING,
        "checkpoints": _NOTHING,
        "order": "These are batches of 64 numbers, so that nearly all of a batch is its handing over, and strict deals each by itself.",
    },
}

MOST_OF_ONE_RANK = 1.1
MOST_SECONDS, MOST_MB = 3.0, 500.0  # for a million files


def what_limits(lines: list[dict[str, Any]]) -> list[str]:
    """A paragraph for each line below its aim."""
    told = [_below(line) for line in lines if line.get("aim") and line["ratio"] < line["aim"]]
    told += [*_files(lines), *_ranks(lines), *_overheads(lines)]
    return told or ["All lines are at their aim."]


def _below(line: dict[str, Any]) -> str:
    what = f"{line['bench']}, {line['case']}"
    return f"- **{what}** is at {line['ratio']:.2f} of {line['peer_name']}, and {line['aim']:g} is aimed at. {_why(line)}"


def _why(line: dict[str, Any]) -> str:
    return next((text for part, text in LIMITS.get(line["bench"], {}).items() if part in line["case"]), "It has not been profiled.")


def _files(lines: list[dict[str, Any]]) -> list[str]:
    million = [line for line in lines if line["bench"] == "growth" and line["case"] == "1000000 files"]
    return [
        f"- **growth, {line['case']}** took {line['seconds']:.1f} s and {max(line['dispatcher'], line['worker']):.0f} MB, "
        f"and {MOST_SECONDS:g} s and {MOST_MB:g} MB are aimed at. {_why(line)}"
        for line in million
        if line["seconds"] > MOST_SECONDS or max(line["dispatcher"], line["worker"]) > MOST_MB
    ]


def _overheads(lines: list[dict[str, Any]]) -> list[str]:
    return [
        f"- **overhead, {line['case']}** costs {line['median']:+.1%} (the middle half: {line['quartiles'][0]:+.1%} to {line['quartiles'][1]:+.1%}), "
        f"and {line['limit']:.0%} is meant. {_why(line)}"
        for line in lines
        if "limit" in line and line["median"] > line["limit"]
    ]


def _ranks(lines: list[dict[str, Any]]) -> list[str]:
    """Of penstock's modes: what a reader holds for 16 ranks, against one."""
    held = {
        (line["case"], line["ranks"]): line for line in lines if line["bench"] == "ranks" and "mib" in line and line["case"].startswith("penstock")
    }
    told = []
    for (case, ranks), line in held.items():
        alone = held.get((case, 1), line)
        ratio = line["mib"] / alone["mib"]
        if ranks == 16 and ratio > MOST_OF_ONE_RANK:
            told.append(f"- **ranks, {case}**: the reader held {ratio:.2f} of what it held for one, and {MOST_OF_ONE_RANK:g} is meant. {_why(line)}")
    return told
