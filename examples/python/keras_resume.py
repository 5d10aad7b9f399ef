"""Keras' model.fit over rows that workers prepare. It is stopped in mid-epoch, saves where it is, and goes on from there.

penstock local --workers 2 -- bash -c 'python keras_resume.py data --steps 20; python keras_resume.py data'
"""

from __future__ import annotations

import argparse
import json
import os
from typing import Any

import keras
import tensorflow as tf

import penstock
from penstock import tf as penstock_tf

ROWS = 800


class Seen(keras.layers.Layer):
    """Counts how often the model was trained on each row, by its id: part of the model, and saved with it."""

    def build(self, shape: Any) -> None:
        self.counts = self.add_weight(name="counts", shape=(ROWS,), initializer="zeros", trainable=False)

    def call(self, ids: Any, training: bool = False) -> Any:
        if training:
            self.counts.assign_add(keras.ops.sum(keras.ops.one_hot(ids, ROWS), axis=0))
        return keras.ops.zeros_like(ids[:, None], dtype="float32")


class StopAndSave(keras.callbacks.Callback):
    """Batches are taken ahead of the model, so it counts what the model has had."""

    def __init__(self, reader: penstock.Reader, checkpoint: str, steps: int | None) -> None:
        super().__init__()
        self.reader, self.checkpoint, self.steps = reader, checkpoint, steps

    def on_train_begin(self, logs: Any = None) -> None:
        self.begin = self.reader.tag()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if batch + 1 == self.steps:
            position = self.reader.state_dict(at=self.begin.after(batch + 1))
            with open(self.checkpoint + ".json", "w") as file:
                json.dump(position, file)
            self.model.save_weights(self.checkpoint + ".weights.h5")
            self.model.stop_training = True


def train(data: str, steps: int | None, checkpoint: str) -> None:
    ids, x = keras.Input((), dtype="int64"), keras.Input((4,))
    seen = Seen()
    model = keras.Model({"id": ids, "x": x}, keras.layers.Dense(1)(x) + seen(ids))
    model.compile("sgd", "mse")

    rows = penstock.Dataset.from_tfrecord(f"{data}/*").parse_example({"id": "int64", "x": penstock.Fixed("float32", [4])})
    dataset, reader = penstock_tf.read(rows.shuffle(100).batch(16))
    dataset = dataset.map(lambda batch: (batch, tf.reduce_sum(batch["x"], axis=1))).prefetch(4)
    if os.path.exists(checkpoint + ".json"):
        model.load_weights(checkpoint + ".weights.h5")
        with open(checkpoint + ".json") as file:
            reader.load_state_dict(json.load(file))

    losses = model.fit(dataset, verbose=0, callbacks=[StopAndSave(reader, checkpoint, steps)]).history["loss"]
    counts = keras.ops.convert_to_numpy(seen.counts)
    print(f"trained on {int(counts.sum())} rows, each at most {int(counts.max())} times, loss {losses[-1]:.3f}")
    reader.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("data", help=f"a directory of TFRecords with ids from 0 to {ROWS - 1} and four numbers in each row")
    parser.add_argument("--steps", type=int, help="save and end after so many; default: read all")
    parser.add_argument("--checkpoint", default="checkpoint")
    options = parser.parse_args()
    train(options.data, options.steps, options.checkpoint)
