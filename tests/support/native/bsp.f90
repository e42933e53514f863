! The bulk-synchronous loop in Fortran: bsp GRANULARITY_US IMBALANCE ITERATIONS [reduce], with mpi or mpi_f08.
! With "reduce" an iteration has MPI_Allreduce only, as in bsp.c, else also two exchanges of messages.
program bsp
#ifdef F08
  use mpi_f08
#else
  use mpi
#endif
  use iso_fortran_env, only: int64, real64
  implicit none
#ifdef F08
  type(MPI_Status) :: status
#else
  integer :: status(MPI_STATUS_SIZE)
#endif
  integer :: rank, ranks, error, next, before, token, came
  integer(int64) :: total, iteration, iterations, all
  real(real64) :: g, v, until, begin, spent, elapsed, now
  character(len=32) :: word

  call get_command_argument(1, word); read (word, *) g
  call get_command_argument(2, word); read (word, *) v
  call get_command_argument(3, word); read (word, *) iterations
  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
  next = mod(rank + 1, ranks)
  before = mod(rank + ranks - 1, ranks)
  call MPI_Barrier(MPI_COMM_WORLD, error)
  begin = MPI_Wtime()
  total = 0
  do iteration = 1, iterations
    call cpu_time(until)
    until = until + 1e-6_real64 * g * (1 + v * (modulo(iteration * 7919 + rank * 104729, 1000_int64) / 1000.0_real64 - 0.5_real64))
    do
      call cpu_time(now)
      if (now >= until) exit
    end do
    all = 1
    call MPI_Allreduce(MPI_IN_PLACE, all, 1, MPI_INTEGER8, MPI_SUM, MPI_COMM_WORLD, error)
    total = total + all
    if (command_argument_count() > 3) cycle
    token = rank
    call MPI_Sendrecv(token, 1, MPI_INTEGER, next, 1, came, 1, MPI_INTEGER, before, 1, MPI_COMM_WORLD, status, error)
    total = total + came
#ifdef F08
    if (status%MPI_SOURCE /= before .or. status%MPI_TAG /= 1) error stop "status"
#else
    if (status(MPI_SOURCE) /= before .or. status(MPI_TAG) /= 1) error stop "status"
#endif
    call MPI_Sendrecv_replace(token, 1, MPI_INTEGER, next, 2, before, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE, error)
    total = total + token
  end do
  spent = MPI_Wtime() - begin
  call MPI_Reduce(spent, elapsed, 1, MPI_DOUBLE_PRECISION, MPI_MAX, 0, MPI_COMM_WORLD, error)
  if (rank == 0) print '(f0.4, 1x, i0)', elapsed, total
  call MPI_Finalize(error)
end program bsp
