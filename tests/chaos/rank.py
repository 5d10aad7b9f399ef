"""A rank of the chaos run: reads its share of a job, writes down what it got, and checkpoints now and then.

    python rank.py '{"address": …, "files": …, "job": …, "mode": …, "index": 0, "ranks": 2, "attempt": 1, "pace": 0.004, "memory": "8MiB", …}'

One line a batch goes to the log: "asked received step id id …", times being CLOCK_MONOTONIC, which all processes of a machine share.
Other lines begin with a word: "restore WHEN", "end WHEN".
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from penstock import Dataset, Error, Reader

BATCH = 32
PLACES = 8  # of strict: its order is that of so many lanes side by side, on any number of ranks
EVERY = 20  # steps between checkpoints


def dataset_of(files: str, shuffle: int) -> Dataset:
    dataset = Dataset.from_tfrecord(files).parse_example({"id": "int64", "payload": "string"})
    return (dataset.shuffle(shuffle) if shuffle else dataset).batch(BATCH)


def main(options: dict[str, Any]) -> None:
    reader = dataset_of(options["files"], options["shuffle"]).distribute(
        options["address"],
        job_name=options["job"],
        processing_mode=options["mode"],
        consumer_index=options["index"],
        num_consumers=options["ranks"],
        **({"places": PLACES} if options["mode"] == "strict" else {}),
        attempt=options["attempt"],
        even="uneven",
        memory=options["memory"],
        timeout=60,
    )
    with reader, open(options["log"], "w", buffering=1) as log:
        if options["state"]:
            print("restore", time.monotonic(), file=log)
            reader.load_state_dict(json.loads(Path(options["state"]).read_text()))
        read(reader, options, log)
        wait_for_others(options)


def read(reader: Reader, options: dict[str, Any], log: Any) -> None:
    batches = iter(reader)
    step, asked = 0, time.monotonic()
    while (batch := next(batches, None)) is not None:
        step += 1
        print(asked, time.monotonic(), step, *batch["id"].tolist(), file=log)
        if options["index"] == 0 and step % EVERY == 0:
            save(reader, step, Path(options["checkpoints"]))
        time.sleep(options["pace"])
        asked = time.monotonic()
    print("end", time.monotonic(), file=log)


def wait_for_others(options: dict[str, Any]) -> None:
    """A rank that has left counts with all that it had, in checkpoints of earlier steps too: so that a step is one cut, all leave together."""
    place = Path(options["checkpoints"])
    (place / f"ended-{options['index']}").touch()
    while len(list(place.glob("ended-*"))) < options["ranks"]:
        time.sleep(0.05)


def save(reader: Reader, step: int, directory: Path) -> None:
    """A checkpoint that cannot be had now (a rank is stopped, the dispatcher away) is one less, as in a training loop."""
    try:
        state = reader.state_dict(timeout=2.0)
    except Error as error:
        print(f"no checkpoint at step {step}: {error}", file=sys.stderr, flush=True)
        return
    assert state["tag"] == step, f"the state of step {step} says that it is of step {state['tag']}"
    half = directory / f".{step}"
    half.write_text(json.dumps(state))
    os.replace(half, directory / f"{step}.json")


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
