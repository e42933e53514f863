"""A recipe for Spack 1; its place upstream is repos/spack_repo/builtin/packages/lockstep_scheduling/.

It has no digest of the sdist yet: `spack checksum` adds one when it is published.
"""
# ruff: noqa: F403, F405

from spack.package import *
from spack_repo.builtin.build_systems.python import PythonPackage


class LockstepScheduling(PythonPackage):
    """Run, measure and simulate time-shared MPI jobs under gang, implicit and partitioned scheduling."""

    pypi = "lockstep-scheduling/lockstep_scheduling-0.3.0.tar.gz"

    license("Apache-2.0")

    version("0.3.0")

    depends_on("python@3.11:", type=("build", "run"))
    depends_on("py-setuptools@68:", type="build")
    depends_on("mpi", type=("build", "run"))
    depends_on("c", type=("build", "run"))

    depends_on("py-mpi4py@4:", type=("build", "run"))
    depends_on("py-numpy@1.26:", type=("build", "run"))
    depends_on("py-psutil@5.9:", type=("build", "run"))
    depends_on("py-pyzmq@25:", type=("build", "run"))
    depends_on("py-pandas@2.1:", type=("build", "run"))
    depends_on("py-jinja2@3.1:", type=("build", "run"))
    depends_on("py-matplotlib@3.8:", type=("build", "run"))
    depends_on("py-numba@0.60:0.68", type=("build", "run"))
    depends_on("py-rich@13:", type=("build", "run"))
