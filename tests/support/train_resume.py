"""A rank that saves where its job is after a few steps and, started anew, goes on from there. Each batch's ids are a line of its file.

train_resume.py FILES DIRECTORY RANKS
"""

import json
import os
import sys
import time
from pathlib import Path

import penstock

SAVE_AT = 5

pattern, out, ranks = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
rank, attempt = int(os.environ["SLURM_PROCID"]), int(os.environ.get("SLURM_RESTART_COUNT", "0"))
checkpoint, hold = out / "checkpoint", out / "hold"
dataset = penstock.Dataset.from_tfrecord(pattern).parse_example({"id": "int64"}).shuffle(100).batch(20)
with open(out / f"{attempt}-{rank}.ids", "w") as file, dataset.distribute(processing_mode="strict", even="uneven", timeout=60) as reader:
    if checkpoint.exists():
        reader.load_state_dict(json.loads(checkpoint.read_text()))
    for step, batch in enumerate(reader, 1):
        file.write(" ".join(map(str, batch["id"].tolist())) + "\n")
        file.flush()
        if rank == 0 and step == SAVE_AT and not checkpoint.exists():
            (out / "saving").write_text(json.dumps(reader.state_dict(at=batch)))
            (out / "saving").rename(checkpoint)
        while step > SAVE_AT and hold.exists():  # the test wants to hurt somebody first
            time.sleep(0.01)
(out / f"{attempt}-{rank}.done").touch()
while len(list(out.glob(f"{attempt}-*.done"))) < ranks:
    time.sleep(0.01)
