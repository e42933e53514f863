/* Collective operations and messages with counts of type int. */
#include "conformance.h"

#define COUNT int
#define DISPL int
#define FORM(name) name
#define NAMED(name) name
#define TABLE collectives
#define MESSAGES messages
#include "collectives.h"
#include "messages.h"
