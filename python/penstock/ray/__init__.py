"""penstock on a Ray cluster: dispatcher and workers as actors, which Ray places, starts again when they die, and gives room to.

import penstock.ray

with penstock.ray.start(num_workers=4) as service:
    ...  # tasks and actors of this cluster find it: dataset.distribute(job_name="train")
"""

from penstock.ray.service import RayService, start

__all__ = ["RayService", "start"]
