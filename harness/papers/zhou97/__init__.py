"""Zhou, Brent, Qu 1997: gang scheduling with a service queue and a waiting queue."""
