"""What limits the lines of the report that are below their aim: profiles (perf, callgrind), by benchmark and a part of the case's name."""

from __future__ import annotations

from typing import Any

_INFLATE = (
    "Inflating is what remains. On one core ISA-L takes 4.6 to 5.1 us for a row of this file, gzip's own CRC included; zlib, which tf.data uses, "
    "7.3 to 8.1. By instructions (`make instructions`) 58,968 of the 68,302 for a row are reading, inflating and checking it, 4,904 parsing it. "
    "libdeflate inflates in 4.0 to 4.2 us, but takes and gives whole files, which no budget could bound. CRCs are no matter: crc32c takes 0.14 us."
)
_MEMORY = "The rest is memory: rows leave a shuffle's buffer of 24 MB in an order that no cache foresees, 2 to 3 us a row when other work fills them."

LIMITS = {
    "records": {
        "gzip: inflate": _INFLATE,
        "gzip: shuffled": f"{_INFLATE} {_MEMORY}",
        "plain": "By samples: parsing 19 %, the kernel's copy of the file and its looking up of pages 18 %, copying values into the batch 15 %, "
        "crc32c 7 %; nothing else is above 2 %.",
    },
    "transport": {
        "C++, over a socket": "By samples at 1 MiB: the worker's I/O thread 44 %, the client's 39 %, nearly all of it in the kernel as with the bare "
        "socket; the threads that cut blocks 10 %, of which the digests (crc32c) are half; the loop 7 %. All of them share the cores that the bare "
        "socket has for two threads.",
    },
    "eager": {
        "1 MiB": "By threads: of the CPU time for an element the executor's thread takes 46 % (of that the one copy into shared memory 30 %, "
        "TensorFlow's own library 25 %, the rest Python and two calls a block), the loop's own thread 17 %, worker threads 15 %, the client's I/O "
        "thread 8 %, the worker's 5 %, the dispatcher 4 %.",
    },
}


def what_limits(lines: list[dict[str, Any]]) -> list[str]:
    """A paragraph for each line below its aim."""
    told = []
    for line in lines:
        if line["aim"] is None or line["ratio"] >= line["aim"]:
            continue
        why = next((text for part, text in LIMITS.get(line["bench"], {}).items() if part in line["case"]), "It has not been profiled.")
        told.append(f"- **{line['case']}** is at {line['ratio']:.2f} of {line['peer_name']}, and {line['aim']:g} is aimed at. {why}")
    return ["What limits the lines below their aim:", *told] if told else []
