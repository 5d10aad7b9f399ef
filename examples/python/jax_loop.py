"""A JAX loop over rows that workers prepare, laid over all devices of all processes. It saves where it is, and goes on from there.

penstock local --workers 2 -- python jax_loop.py data --checkpoint state.json
"""

from __future__ import annotations

import argparse
import json
import os

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import penstock
from penstock.jax import DataLoader


@jax.jit
def step(weights: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """One step of gradient descent towards weights that sum the row."""
    loss, gradient = jax.value_and_grad(lambda w: jnp.mean((x @ w - x.sum(axis=1)) ** 2))(weights)
    return weights - 0.01 * gradient, loss


def train(data: str, steps: int | None, checkpoint: str) -> None:
    rows = NamedSharding(Mesh(jax.devices(), ("data",)), PartitionSpec("data"))
    dataset = penstock.Dataset.from_tfrecord(f"{data}/*").parse_example({"id": "int64", "x": penstock.Fixed("float32", [4])})
    loader = DataLoader(dataset, batch_size=16, shuffle=True, sharding=rows, epochs=1)
    weights = jnp.zeros(4)
    if os.path.exists(checkpoint):
        with open(checkpoint) as file:
            saved = json.load(file)
        weights = jnp.array(saved["weights"])
        loader.load_state_dict(saved["data"])

    for number, batch in enumerate(loader, 1):
        weights, loss = step(weights, batch["x"])
        print(f"step {number} loss {loss:.4f} ids {batch['id'].tolist()}")
        if number == steps:
            break
    with open(checkpoint, "w") as file:
        json.dump({"weights": weights.tolist(), "data": loader.state_dict()}, file)
    loader.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("data", help="a directory of TFRecords with an id and four numbers in each row")
    parser.add_argument("--steps", type=int, help="save and end after so many; default: read all")
    parser.add_argument("--checkpoint", default="state.json")
    options = parser.parse_args()
    train(options.data, options.steps, options.checkpoint)
