"""Which words choose processors for ranks."""

import pytest

from coordinator.host.chosen_processors import chosen_by


@pytest.mark.parametrize(
    "command, sign",
    [
        ("mpirun -n 2 ./app", ""),
        ("mpirun --bind-to core -n 2 ./app", ""),
        ("mpirun --bind-to core:overload-allowed -n 2 ./app", ""),
        ("mpiexec -bind-to none -n 2 ./app", ""),
        ("srun --cpu-bind=cores -n 2 ./app", ""),
        ("rm -rf x", ""),
        ("mpirun --cpu-set 0,1 -n 2 ./app", "--cpu-set"),
        ("mpirun -n 2 --cpu-list 0,1 ./app", "--cpu-list"),
        ("mpirun --rankfile ranks -n 2 ./app", "--rankfile"),
        ("mpirun --bind-to cpu-list:ordered -n 2 ./app", "--bind-to cpu-list:ordered"),
        ("mpirun --map-by pe-list=0,1 -n 2 ./app", "--map-by pe-list=0,1"),
        ("mpiexec -bind-to user:0,2 -n 2 ./app", "--bind-to user:0,2"),
        ("srun --cpu-bind=map_cpu:0,1 -n 2 ./app", "--cpu-bind map_cpu:0,1"),
        ("mpirun --map-by rankfile:file=F -n 2 ./app", "--map-by rankfile:file=F"),
        ("mpirun --mca hwloc_base_cpu_set 2,3 -n 2 ./app", "--mca hwloc_base_cpu_set"),
        ("mpirun --mca btl self -n 2 ./app", ""),
        ("mpiexec -genv I_MPI_PIN_PROCESSOR_LIST 0,1 -n 2 ./app", "--genv I_MPI_PIN_PROCESSOR_LIST"),
        ("mpiexec -genv OMP_NUM_THREADS 1 -n 2 ./app", ""),
        ("mpirun -x MV2_CPU_MAPPING=0:1 -n 2 ./app", "--x MV2_CPU_MAPPING"),
        ("taskset -c 0 mpirun -n 1 ./app", "taskset"),
        ("mpirun -n 2 /usr/bin/numactl -C 0 ./app", "/usr/bin/numactl"),
        ("likwid-pin -c 0 ./app", "likwid-pin"),
    ],
)
def test_words_that_name_processors(command, sign):
    assert chosen_by(command.split(), {}) == sign
    assert chosen_by(["sh", "-c", command], {}) == sign


def test_variables_that_name_processors():
    assert (
        chosen_by(["mpirun", "./app"], {"OMPI_MCA_hwloc_base_cpu_set": "0,1"})
        == "OMPI_MCA_hwloc_base_cpu_set"
    )
    assert chosen_by(["mpirun", "./app"], {"OMPI_MCA_hwloc_base_binding_policy": "core"}) == ""
