"""A recommender that torch ranks train from a tf.data pipeline, which readers run: by the functions of penstock.dds.

It is one program for all processes of a job, and the environment says which one a process is (docs/reference/environment.md): the dispatcher and the
readers serve, the ranks train. Without readers each rank runs the pipeline itself.

    python recommender.py data --write                                                       # some gzip TFRecords to train on
    penstock local --workers 2 -- torchrun --standalone --nproc-per-node 2 recommender.py data
"""

from __future__ import annotations

import argparse
import glob
from typing import Any

from penstock import dds

FEATURES = 16
USERS = 1000
NEGATIVES_KEPT = 0.25


def pipeline(files: list[str], batch_size: int) -> Any:
    """A shuffled list of files, over and over; their records mixed, batched, parsed, and most of the negatives left out."""
    import tensorflow as tf

    spec = {
        "user": tf.io.FixedLenFeature([], tf.int64),
        "features": tf.io.FixedLenFeature([FEATURES], tf.float32),
        "clicked": tf.io.FixedLenFeature([], tf.int64),
    }

    def downsample(example: dict[str, Any]) -> dict[str, Any]:
        clicked = tf.cast(example["clicked"], tf.float32)
        keep = tf.logical_or(clicked > 0, tf.random.uniform(tf.shape(clicked)) < NEGATIVES_KEPT)
        weight = tf.where(clicked > 0, 1.0, 1.0 / NEGATIVES_KEPT)  # those that stay stand for those that went
        columns = {"user": example["user"], "features": example["features"], "clicked": clicked, "weight": weight}
        return {name: tf.boolean_mask(column, keep) for name, column in columns.items()}

    def records(name: Any) -> Any:
        return tf.data.TFRecordDataset(name, compression_type="GZIP")

    names = tf.data.Dataset.from_tensor_slices(files).shuffle(len(files)).repeat()
    mixed = names.interleave(records, cycle_length=4, num_parallel_calls=tf.data.AUTOTUNE).shuffle(4 * batch_size)
    batches = mixed.batch(batch_size, drop_remainder=True)
    return batches.map(lambda serialized: tf.io.parse_example(serialized, spec)).map(downsample)


def train(data: str, steps: int, batch_size: int) -> None:
    import torch
    import torch.distributed as dist
    from click_model import ClickModel
    from torch.nn.parallel import DistributedDataParallel

    from penstock.torch import from_tf

    dist.init_process_group("gloo")
    dataset = pipeline(sorted(glob.glob(f"{data}/*.gz")), batch_size)
    batches = iter(from_tf(dds.maybe_distribute_dataset(dataset)))  # the one line

    torch.manual_seed(0)
    model = DistributedDataParallel(ClickModel(USERS, FEATURES))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for step in range(steps):
        batch = next(batches)
        scores = model(batch["user"], batch["features"])
        loss = torch.nn.functional.binary_cross_entropy_with_logits(scores, batch["clicked"], weight=batch["weight"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"rank {dist.get_rank()} step {step} rows {len(scores)} loss {loss.item():.4f}", flush=True)
    dist.barrier()  # a TFJob ends with its chief, and stops whom it finds still training
    dist.destroy_process_group()


def write(data: str, files: int = 8, rows: int = 2000) -> None:
    """Clicks that depend on the first feature, so that there is something to learn."""
    import os
    import random

    from penstock.tfrecord import write_tfrecord

    os.makedirs(data, exist_ok=True)
    draw = random.Random(0)
    for file in range(files):
        examples = []
        for _ in range(rows):
            features = [draw.gauss(0, 1) for _ in range(FEATURES)]
            examples.append({"user": draw.randrange(USERS), "features": features, "clicked": int(features[0] + draw.gauss(0, 0.3) > 1)})
        write_tfrecord(f"{data}/part-{file:03}.gz", examples, "gzip")


def main() -> None:
    dds.maybe_start_dataset_service()  # servers do not come back from here
    parser = argparse.ArgumentParser()
    parser.add_argument("data", help="a directory of gzip TFRecords")
    parser.add_argument("--write", action="store_true", help="write some there, and end")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--batch-size", type=int, default=256)
    options = parser.parse_args()
    if options.write:
        write(options.data)
    else:
        train(options.data, options.steps, options.batch_size)


if __name__ == "__main__":
    main()
