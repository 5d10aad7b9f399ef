"""A rank that reads a dataset by what its environment says, and notes the ids it got. It says nothing of services, jobs or ranks.

train.py FILES DIRECTORY RANKS
"""

import os
import socket
import sys
import time
from pathlib import Path

import penstock

pattern, out, ranks = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
name = f"{socket.gethostname()}-{os.getpid()}"
dataset = penstock.Dataset.from_tfrecord(pattern).parse_example({"id": "int64"}).shuffle(100).batch(20)
with open(out / f"{name}.ids", "w") as file, dataset.distribute(even="uneven", timeout=60) as reader:
    for batch in reader:
        file.write("".join(f"{row}\n" for row in batch["id"].tolist()))
        file.flush()
        while (out / "hold").exists():  # the test wants to hurt somebody first
            time.sleep(0.01)
(out / f"{name}.done").touch()
while len(list(out.glob("*.done"))) < ranks:  # as a collective would: the chief's end is the job's
    time.sleep(0.01)
