// All detectors, by platform; precedence.cc puts them in order. Contract: opinion.h.
#pragma once

#include "cluster/opinion.h"

namespace penstock::cluster {

// explicit.cc: arguments and PENSTOCK_*
Opinion<Service> ArgumentService(const Inputs& in);
Opinion<Role> ArgumentRole(const Inputs& in);
Opinion<Place> ArgumentRank(const Inputs& in);
Opinion<Address> ArgumentAdvertise(const Inputs& in);
Opinion<uint16_t> ArgumentPort(const Inputs& in);
Opinion<std::string> ArgumentJob(const Inputs& in);
Opinion<Service> PenstockService(const Inputs& in);
Opinion<Role> PenstockRole(const Inputs& in);
Opinion<Place> PenstockRank(const Inputs& in);
Opinion<Address> PenstockAdvertise(const Inputs& in);
Opinion<uint16_t> PenstockPort(const Inputs& in);  // of the dispatcher
Opinion<std::string> PenstockJob(const Inputs& in);

// original_kubernetes.cc: SPEC_TYPE, MACHINES_CONFIG, JOB_NAME, MY_POD_NAME
Opinion<Service> OriginalKubernetesService(const Inputs& in);
Opinion<Role> OriginalKubernetesRole(const Inputs& in);
Opinion<Place> OriginalKubernetesRank(const Inputs& in);  // never an answer, but why not
Opinion<Address> OriginalKubernetesAdvertise(const Inputs& in);
Opinion<uint16_t> OriginalKubernetesPort(const Inputs& in);
Opinion<std::string> OriginalKubernetesJob(const Inputs& in);

// tf_config.cc: TF_CONFIG
Opinion<Service> TfConfigService(const Inputs& in);
Opinion<Role> TfConfigRole(const Inputs& in);
Opinion<Place> TfConfigRank(const Inputs& in);
Opinion<Address> TfConfigAdvertise(const Inputs& in);
Opinion<uint16_t> TfConfigPort(const Inputs& in);
Opinion<std::string> TfConfigJob(const Inputs& in);

// original_slurm.cc: HAS_READERS, TASK_TYPE, SLURM_JOB_NODELIST_HET_GROUP_0
Opinion<Service> OriginalSlurmService(const Inputs& in);
Opinion<Role> OriginalSlurmRole(const Inputs& in);
Opinion<Address> OriginalSlurmAdvertise(const Inputs& in);
Opinion<uint16_t> OriginalSlurmPort(const Inputs& in);

// kubernetes.cc: service variables, downward API
Opinion<Service> KubernetesService(const Inputs& in);
Opinion<Role> KubernetesRole(const Inputs& in);
Opinion<Address> KubernetesAdvertise(const Inputs& in);

// process_group.cc: torch.distributed, jax.distributed, if initialised
Opinion<Place> ProcessGroupRank(const Inputs& in);

// ray.cc: if initialised
Opinion<Service> RayService(const Inputs& in);
Opinion<Role> RayRole(const Inputs& in);
Opinion<std::string> RayJob(const Inputs& in);

// torchrun.cc: RANK, WORLD_SIZE
Opinion<Place> TorchrunRank(const Inputs& in);
Opinion<std::string> TorchrunJob(const Inputs& in);
Opinion<uint32_t> TorchrunAttempt(const Inputs& in);

// indexed_job.cc: JOB_COMPLETION_INDEX, PET_*
Opinion<Place> IndexedJobRank(const Inputs& in);

// slurm.cc: SLURM_PROCID, SLURM_STEP_NUM_TASKS
Opinion<Place> SlurmRank(const Inputs& in);
Opinion<std::string> SlurmJob(const Inputs& in);
Opinion<uint32_t> SlurmAttempt(const Inputs& in);

}  // namespace penstock::cluster
