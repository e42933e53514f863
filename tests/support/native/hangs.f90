! Ranks that wait for ever, some kinds of hangs.c in Fortran: large-sends, skipped, waitall.
program hangs
  use mpi
  implicit none
  integer, parameter :: large = 500000
  integer :: rank, ranks, last, error, dup, round, total, next, before
  integer :: requests(2), status(MPI_STATUS_SIZE), statuses(MPI_STATUS_SIZE, 2)
  integer :: token(2), own(1)
  integer, allocatable :: items(:)
  character(len=32) :: kind

  call get_command_argument(1, kind)
  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
  last = ranks - 1
  own = rank
  next = mod(rank + 1, ranks)
  before = mod(rank + last, ranks)
  allocate(items(large))
  items = 0
  call MPI_Comm_dup(MPI_COMM_WORLD, dup, error)
  do round = 1, 3
    call MPI_Allreduce(rank, total, 1, MPI_INTEGER, MPI_SUM, dup, error)
  end do
  if (rank == 0) then
    print '(a)', 'begun'
    flush (6)
  end if
  select case (kind)
  case ('large-sends')
    if (rank < 2) then
      call MPI_Send(items, large, MPI_INTEGER, 1 - rank, 3, MPI_COMM_WORLD, error)
      call MPI_Recv(items, large, MPI_INTEGER, 1 - rank, 3, MPI_COMM_WORLD, status, error)
    end if
  case ('skipped')
    if (rank /= last) call MPI_Allreduce(rank, total, 1, MPI_INTEGER, MPI_SUM, dup, error)
    call MPI_Barrier(MPI_COMM_WORLD, error)
  case ('waitall')
    call MPI_Irecv(token(1:1), 1, MPI_INTEGER, next, 5, MPI_COMM_WORLD, requests(1), error)
    call MPI_Irecv(token(2:2), 1, MPI_INTEGER, next, 6, MPI_COMM_WORLD, requests(2), error)
    call MPI_Send(own, 1, MPI_INTEGER, before, 5, MPI_COMM_WORLD, error)
    call MPI_Waitall(2, requests, statuses, error)
  end select
  call MPI_Finalize(error)
end program hangs
