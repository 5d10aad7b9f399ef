"""tf.data.experimental.service, by penstock: the same names, arguments and results. Changing the import is the whole migration.

    from penstock import tf as service  # instead of: service = tf.data.experimental.service

    dispatcher = service.DispatchServer()
    worker = service.WorkerServer(service.WorkerConfig(dispatcher.target.split("://")[1]))
    dataset = dataset.apply(service.distribute(service.ShardingPolicy.DYNAMIC, dispatcher.target))

docs/reference/tf.md says of each name and argument what is the same, what is better and what is refused. Beyond the original, `read` gives a
tf.data.Dataset whose position can be saved.
"""

from penstock.tf.datasets import distribute, from_dataset_id, register_dataset
from penstock.tf.native import read
from penstock.tf.policies import CrossTrainerCache, ShardingPolicy
from penstock.tf.servers import DispatcherConfig, DispatchServer, WorkerConfig, WorkerServer

__all__ = [
    "CrossTrainerCache",
    "DispatchServer",
    "DispatcherConfig",
    "ShardingPolicy",
    "WorkerConfig",
    "WorkerServer",
    "distribute",
    "from_dataset_id",
    "read",
    "register_dataset",
]
